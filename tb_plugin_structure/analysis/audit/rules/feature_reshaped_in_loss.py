"""A feature is viewed under a width that is not its own."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.naming import base_name
from tb_plugin_structure.analysis.audit.recorded_loss import EXTERNAL
from tb_plugin_structure.analysis.audit.rules.view_by_accident import VIEWS
from tb_plugin_structure.analysis.audit.views import view


@rule(
    "feature-reshaped-in-loss",
    severity="error",
    explanation=(
        "A feature is reshaped to a width that is not its own, which works only because the number of elements "
        "happens to be divisible: the loss compares unrelated values."
    ),
    fix="Project the student's feature with an adapter (report.adapters()) instead of reshaping.",
)
def feature_reshaped_in_loss(context: Context) -> Iterator[Finding]:
    outside = context.outside
    if outside is None:
        return
    for kernel, name in enumerate(outside.kernels.column_texts("name")):
        inputs, outputs = outside.kernels.values("inputs", kernel), outside.kernels.values("outputs", kernel)
        if base_name(name) not in VIEWS or not len(inputs):
            continue
        source = int(inputs[0])
        if outside.tensors["origin"][source] != EXTERNAL or not len(outputs):
            continue
        shape, target = outside.shape(source), outside.shape(int(outputs[0]))
        label = [Dimension(dim.UNKNOWN, size) for size in shape]
        if len(shape) > 2 and view(label, target) is None:
            operator = int(outside.kernels["operator"][kernel])
            where = outside.operators.text("source", operator)
            yield Finding(
                f"{outside.tensors.text('name', source)} {list(shape)} is viewed as {list(target)}"
                + (f" ({where})" if where else ""),
                subject="outside",
            )
