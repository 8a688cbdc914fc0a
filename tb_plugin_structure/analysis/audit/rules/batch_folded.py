"""The batch is folded into another dimension of a model's output."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.outputs import clear_output


@rule(
    "batch-folded",
    severity="info",
    explanation="Losses that average over examples then average over tokens or windows as well, padding included.",
    fix="Unflatten the output, or mask the padding in the loss.",
)
def batch_folded(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        feature = clear_output(side)
        if feature is not None and any(name.startswith(f"{dim.BATCH}·") for name in feature.names):
            yield side.found(f"the output [{', '.join(d.text() for d in feature.dimensions)}] folds the batch")
