"""Values become double precision on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side


@rule(
    "promotion-to-float64",
    severity="warning",
    explanation="Double precision is many times slower on a GPU; it often comes from a NumPy array.",
    fix="Give the constant the model's dtype.",
)
def promotion_to_float64(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        kernel = _first_promotion(side)
        if kernel >= 0:
            path = side.path_of_kernel(kernel)
            where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
            yield side.found(f"values become float64 in {where}", path)


def _first_promotion(side: Side) -> int:
    """First kernel that makes float64 of computed float32 values; -1 when there is none, or the model is float64."""
    structure = side.structure
    dtypes = np.array(structure.tensors.column_texts("dtype"), dtype=object)
    if "float64" not in dtypes or any(dtypes[structure.module_calls.values("inputs", 0)] == "float64"):
        return -1
    for kernel in range(structure.kernels.rows):
        outputs, inputs = structure.kernels.values("outputs", kernel), structure.kernels.values("inputs", kernel)
        becomes_double = len(outputs) and dtypes[outputs[0]] == "float64" and structure.shape(int(outputs[0]))
        if becomes_double and any(dtypes[inputs] == "float32"):
            return kernel
    return -1
