"""Values of a single-precision model are cast down to half precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.naming import base_name
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.records.structure import Structure

_HALF = ("float16", "bfloat16")


@rule(
    "half-precision-cast",
    severity="warning",
    explanation=(
        "A hard-wired half() rounds to 3 digits (float16 overflows above 65504 besides), and what follows either stays "
        "in half precision or fails on single-precision weights."
    ),
    fix="Remove the cast and run the step under torch.autocast, or convert the whole model.",
)
def half_precision_cast(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        if side.structure.header.provenance.autocast or not _is_single(side):
            continue
        kernel, target = _first_cast(side.structure, side.names.kernel_names)
        if kernel >= 0:
            path = side.path_of_kernel(kernel)
            where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
            yield side.found(f"float32 values become {target} in {where}", path)
    outside = context.outside
    if outside is not None and not outside.header.provenance.autocast:
        kernel, target = _first_cast(outside, [base_name(name) for name in outside.kernels.column_texts("name")])
        if kernel >= 0:
            source = outside.operators.text("source", int(outside.kernels["operator"][kernel]))
            where = f" ({source})" if source else ""
            yield Finding(f"float32 values become {target} in the loss{where}", subject="outside")


def _is_single(side: Side) -> bool:
    """Whether the model's floating parameters are all float32."""
    parameters = side.structure.parameters
    texts, is_buffer = parameters.column_texts("dtype"), parameters["is_buffer"].tolist()
    kinds = {text for text, buffer in zip(texts, is_buffer, strict=True) if not buffer}
    return "float32" in kinds and not any(kind in _HALF for kind in kinds)


def _first_cast(structure: Structure, names: Sequence[str]) -> tuple[int, str]:
    """(kernel, dtype) of the first cast of float32 values with dimensions to half precision; (-1, "") for none."""
    dtypes = structure.tensors.column_texts("dtype")
    if not any(kind in _HALF for kind in dtypes):
        return -1, ""
    # What autocast converts is converted within the operator that wants it, a layer or a product.
    operators = structure.kernels["operator"].tolist()
    others = {operator for operator, name in zip(operators, names, strict=True) if name != "_to_copy"}
    for kernel, name in enumerate(names):
        if name != "_to_copy" or operators[kernel] in others:
            continue
        inputs, outputs = structure.kernels.values("inputs", kernel), structure.kernels.values("outputs", kernel)
        if not len(inputs) or not len(outputs) or dtypes[inputs[0]] != "float32":
            continue
        if dtypes[outputs[0]] in _HALF and structure.shape(int(outputs[0])):
            return kernel, dtypes[outputs[0]]
    return -1, ""
