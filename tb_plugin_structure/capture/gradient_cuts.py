"""Where the way of a gradient is cut: the operator that reads what requires a gradient and makes what does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.records.structure import Structure

MAXIMUM_NOTES = 16

UNREAD, NO_CUT = -2, -1
"""In place of a kernel: no kernel on a way to the output reads the value, or none on the way cuts."""


def describe_cuts(structure: Structure, missed: Sequence[str]) -> list[str]:
    """A sentence for each cause for which no gradient reaches parameters; `missed` are their paths."""
    if not missed:
        return []
    cuts = kernels_that_cut(structure)
    parameters = {path: row for row, path in enumerate(structure.parameters.column_texts("path"))}
    tensors_of: dict[int, list[int]] = {}
    for tensor, parameter in enumerate(structure.tensors["parameter"].tolist()):
        if parameter >= 0:
            tensors_of.setdefault(parameter, []).append(tensor)
    causes: dict[str, list[str]] = {}
    for path in missed:
        read = tensors_of.get(parameters.get(path, -1), ())
        cause = _cause(structure, max(cuts[tensor] for tensor in read)) if read else "the pass does not read it"
        causes.setdefault(cause, []).append(path)
    notes = []
    for cause, paths in causes.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        notes.append(f"No gradient reaches {paths[0]}{others}: {cause}.")
    if len(notes) > MAXIMUM_NOTES:
        left_out = len(notes) - MAXIMUM_NOTES
        notes = [*notes[:MAXIMUM_NOTES], f"Gradients are cut at {left_out} further operators."]
    return notes


def kernels_that_cut(structure: Structure) -> list[int]:
    """For each tensor the last kernel that cuts the way of a gradient from the output to it.

    One pass over the kernels from the last to the first. A kernel cuts when it reads a tensor that requires a gradient
    and none of its results that lead to the output do. Kernels within a custom ``autograd.Function`` look the same, but
    what they lead to requires a gradient without having read anything that does: there the way goes on.
    """
    kernels, tensors = structure.kernels, structure.tensors
    reads = [
        (*inputs, *also)
        for inputs, also in zip(kernels.column_lists("inputs"), kernels.column_lists("also_reads"), strict=True)
    ]
    makes = kernels.column_lists("outputs")
    requires_grad = tensors["requires_grad"].tolist()
    relevant = _leads_to_output(structure, reads, makes)
    cuts = [UNREAD] * tensors.rows
    for kernel in range(kernels.rows - 1, -1, -1):
        results = [row for row in makes[kernel] if relevant[row]]
        if not results:
            continue
        with_gradient = [row for row in results if requires_grad[row]]
        onward = max(cuts[row] for row in with_gradient or results)
        takes_gradient = any(requires_grad[row] for row in reads[kernel])
        for row in reads[kernel]:
            if with_gradient:
                if requires_grad[row] or not takes_gradient:
                    cuts[row] = max(cuts[row], onward, NO_CUT)
            elif requires_grad[row] and onward == UNREAD:
                cuts[row] = max(cuts[row], kernel)
            else:
                cuts[row] = max(cuts[row], onward)
    return cuts


def _leads_to_output(
    structure: Structure, reads: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]
) -> list[bool]:
    """Whether each tensor is an output of the model that a gradient starts from, or contributes to one."""
    requires_grad = structure.tensors["requires_grad"]
    roots = np.flatnonzero(structure.module_calls["parent"] < 0)
    outputs = [int(row) for call in roots.tolist() for row in structure.module_calls.values("outputs", call)]
    started = [row for row in outputs if requires_grad[row]] or outputs
    relevant = [False] * structure.tensors.rows
    for row in started:
        relevant[row] = True
    for kernel in range(len(makes) - 1, -1, -1):
        if any(relevant[row] for row in makes[kernel]):
            for row in reads[kernel]:
                relevant[row] = True
    return relevant


def _cause(structure: Structure, kernel: int) -> str:
    if kernel == UNREAD:
        return "no recorded operator leads from it to the output"
    if kernel == NO_CUT:
        return "the loss does not use the outputs that it leads to"
    operator = int(structure.kernels["operator"][kernel])
    name, source = structure.operators.text("name", operator), structure.operators.text("source", operator)
    call = structure.call_path(int(structure.operators["call"][operator]))
    within = f" in {call}" if call else ""
    where = f" ({source})" if source else ""
    return f"cut at {name}{within}{where}{_reason(structure, kernel)}"


def _reason(structure: Structure, kernel: int) -> str:
    """Why a kernel's result requires no gradient, unless its name says it."""
    if structure.kernels.text("name", kernel).startswith("aten.detach"):
        return ""
    dtypes = {structure.tensors.text("dtype", int(row)) for row in structure.kernels.values("outputs", kernel)}
    if not any(dtype.startswith(("float", "bfloat", "complex")) for dtype in dtypes):
        return f", whose result is {' and '.join(sorted(dtypes))}"
    return ", which ran with gradients turned off"
