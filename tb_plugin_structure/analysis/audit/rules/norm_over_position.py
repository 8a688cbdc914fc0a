"""A layer norm runs over a position instead of a feature."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule

_POSITIONS = (dim.WIDTH, dim.HEIGHT, dim.LENGTH)


@rule(
    "norm-over-position",
    severity="warning",
    explanation=(
        "The sizes agree by chance: the last dimension of a map or signal with channels first is a position, so the "
        "norm mixes neighbours and keeps channels apart."
    ),
    fix="Permute to channels last before the norm, or use GroupNorm(1, channels).",
)
def norm_over_position(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        seen: set[str] = set()
        for kernel, name in enumerate(side.names.kernel_names):
            if name != "native_layer_norm" or not side.names.inputs[kernel]:
                continue
            axes = side.names.arguments(kernel).integers(1, "normalized_shape")
            label = side.names.of(side.names.inputs[kernel][0])
            path = side.path_of_kernel(kernel)
            if axes is None or len(axes) != 1 or not label or label[-1].name not in _POSITIONS or path in seen:
                continue
            seen.add(path)
            names = ", ".join(dimension.text() for dimension in label)
            where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
            yield side.found(f"{where} normalises [{names}] over {label[-1].name}", path)
