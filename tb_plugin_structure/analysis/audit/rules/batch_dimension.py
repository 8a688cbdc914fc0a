"""The batch disappears from a model's output, or is folded into another dimension."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side


def _output(side: Side) -> Feature | None:
    if not side.structure.module_calls.rows or side.structure.header.HasField("error"):
        return None
    feature = side.feature(0)
    return feature if feature.is_floating and feature.tensor >= 0 and dim.UNKNOWN not in feature.names else None


@rule(
    "batch-lost",
    severity="warning",
    explanation="Examples of a batch are mixed into one result, so no example has a target of its own.",
    fix="Look for a mean, a max or a squeeze over the first dimension.",
)
def batch_lost(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        feature = _output(side)
        if feature is None or len(feature.shape) < 1:
            continue
        if not any(name.startswith(dim.BATCH) or name == dim.SINGLE for name in feature.names):
            yield side.found(f"the output [{', '.join(d.text() for d in feature.dimensions)}] has no batch dimension")


@rule(
    "batch-folded",
    severity="info",
    explanation="Losses that average over examples then average over tokens or windows as well, padding included.",
    fix="Unflatten the output, or mask the padding in the loss.",
)
def batch_folded(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        feature = _output(side)
        if feature is not None and any(name.startswith(f"{dim.BATCH}·") for name in feature.names):
            yield side.found(f"the output [{', '.join(d.text() for d in feature.dimensions)}] folds the batch")
