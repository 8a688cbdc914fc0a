"""Where the way of a gradient is cut: the operator that reads what requires a gradient and makes what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.capture.overwrites import Overwrites, overwrites
from tb_plugin_structure.records.structure import Structure

MAXIMUM_NOTES = 16

UNREAD, NO_CUT = -2, -1
"""In place of a kernel: no kernel on a way to the output reads the value, or none on the way cuts."""


def describe_cuts(
    structure: Structure, missed: Sequence[str], *, outputs: Sequence[str] = (), zero: Sequence[str] = ()
) -> list[str]:
    """A sentence for each cause for which no gradient arrives.

    Args:
        structure: The record of the pass.
        missed: Paths of parameters that no gradient reaches.
        outputs: Paths of modules whose outputs no gradient reaches; named where no parameter has the same cause.
        zero: Paths of parameters whose gradient is zero everywhere; named where an overwrite in place explains it.
    """
    if not missed and not outputs and not zero:
        return []
    ways = ways_of(structure)
    cuts = ways.cuts
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
    of_outputs: dict[str, list[str]] = {}
    returned = set(_returned(structure))
    for path in outputs:
        calls = structure.calls_of_module.get(structure.module_row.get(path, -1), ())
        made = [int(row) for call in calls for row in structure.module_calls.values("outputs", call)]
        if made:
            cut = max(NO_CUT if tensor in returned and cuts[tensor] == UNREAD else cuts[tensor] for tensor in made)
            of_outputs.setdefault(_cause(structure, cut), []).append(path)
    for cause, paths in of_outputs.items():
        if cause not in causes:
            causes[cause] = [f"the output of {path or 'the model'}" for path in paths]
    notes = []
    for cause, paths in causes.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        notes.append(f"No gradient reaches {paths[0]}{others}: {cause}.")
    overwritten: dict[str, list[str]] = {}
    for path in zero:
        read = tensors_of.get(parameters.get(path, -1), ())
        cut = max((cuts[tensor] for tensor in read), default=NO_CUT)
        # A way that is left open explains nothing: the derivative itself may be zero on it.
        if cut >= 0 and overwrites(structure.kernels.text("name", cut)) and not any(ways.is_open[row] for row in read):
            count = ways.pieces.get(cut, 1)
            together = f", the last of {count} writes that do so piece by piece" if count > 1 else ""
            overwritten.setdefault(_cause(structure, cut) + together, []).append(path)
    for cause, paths in overwritten.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        notes.append(f"Only zeros reach {paths[0]}{others}: {cause}.")
    if len(notes) > MAXIMUM_NOTES:
        left_out = len(notes) - MAXIMUM_NOTES
        notes = [*notes[:MAXIMUM_NOTES], f"Gradients are cut at {left_out} further operators."]
    return notes


@dataclass
class Ways:
    """What a gradient meets on its ways from the output to each tensor.

    Attributes:
        cuts: For each tensor the last kernel that cuts a way to it; UNREAD, or NO_CUT.
        is_open: For each tensor whether a way is left on which no kernel cuts.
        pieces: Kernel -> how many writes, itself the last, together overwrite what was there before.
    """

    cuts: list[int]
    is_open: list[bool]
    pieces: dict[int, int]


def ways_of(structure: Structure) -> Ways:
    """Follow the ways of a gradient from the output to each tensor.

    One pass over the kernels from the last to the first. A kernel cuts when it reads a tensor that requires a gradient
    and none of its results that lead to the output do. Kernels within a custom ``autograd.Function`` look the same, but
    what they lead to requires a gradient without having read anything that does: there the way goes on. Writes in
    place that leave nothing of a value, together if not alone, cut the way to what that was before.
    """
    kernels, tensors = structure.kernels, structure.tensors
    reads = [
        (*inputs, *also)
        for inputs, also in zip(kernels.column_lists("inputs"), kernels.column_lists("also_reads"), strict=True)
    ]
    makes = kernels.column_lists("outputs")
    overwritten = Overwrites(structure)
    requires_grad = tensors["requires_grad"].tolist()
    relevant = _leads_to_output(structure, reads, makes)
    cuts = [UNREAD] * tensors.rows
    is_open = [False] * tensors.rows
    for row in _returned(structure):
        is_open[row] = True
    pieces: dict[int, int] = {}
    for kernel in range(kernels.rows - 1, -1, -1):
        results = [row for row in makes[kernel] if relevant[row]]
        if not results:
            continue
        with_gradient = [row for row in results if requires_grad[row]]
        onward = max(cuts[row] for row in with_gradient or results)
        takes_gradient = any(requires_grad[row] for row in reads[kernel])
        arrives = any(is_open[row] for row in with_gradient or results)
        for row in reads[kernel]:
            writes = overwritten.before_read(kernel, row) if requires_grad[row] else ()
            if writes:
                cuts[row] = max(cuts[row], writes[-1])
                pieces[writes[-1]] = max(pieces.get(writes[-1], 1), len(writes))
            elif with_gradient:
                if requires_grad[row] or not takes_gradient:
                    cuts[row] = max(cuts[row], onward, NO_CUT)
                    is_open[row] = is_open[row] or arrives
            elif requires_grad[row] and onward == UNREAD:
                cuts[row] = max(cuts[row], kernel)
            else:
                cuts[row] = max(cuts[row], onward)
                is_open[row] = is_open[row] or arrives
    return Ways(cuts, is_open, pieces)


def _leads_to_output(
    structure: Structure, reads: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]
) -> list[bool]:
    """Whether each tensor is an output of the model that a gradient starts from, or contributes to one."""
    requires_grad = structure.tensors["requires_grad"]
    outputs = _returned(structure)
    started = [row for row in outputs if requires_grad[row]] or outputs
    relevant = [False] * structure.tensors.rows
    for row in started:
        relevant[row] = True
    for kernel in range(len(makes) - 1, -1, -1):
        if any(relevant[row] for row in makes[kernel]):
            for row in reads[kernel]:
                relevant[row] = True
    return relevant


def _returned(structure: Structure) -> list[int]:
    """Tensors that the model itself returned."""
    roots = np.flatnonzero(structure.module_calls["parent"] < 0)
    return [int(row) for call in roots.tolist() for row in structure.module_calls.values("outputs", call)]


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
    if overwrites(structure.kernels.text("name", kernel)):
        return ", which overwrites it in place"
    dtypes = {structure.tensors.text("dtype", int(row)) for row in structure.kernels.values("outputs", kernel)}
    if not any(dtype.startswith(("float", "bfloat", "complex")) for dtype in dtypes):
        return f", whose result is {' and '.join(sorted(dtypes))}"
    return ", which ran with gradients turned off"
