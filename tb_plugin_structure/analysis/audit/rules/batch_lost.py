"""The batch disappears from a model's output."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.batch_order import batch_given_first
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.outputs import clear_output


@rule(
    "batch-lost",
    severity="warning",
    explanation="Examples of a batch are mixed into one result, so no example has a target of its own.",
    fix="Look for a mean, a max or a squeeze over the first dimension.",
)
def batch_lost(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        feature = clear_output(side)
        if feature is None or len(feature.shape) < 1:
            continue
        # A module that takes the batch second makes what follows look so; dimensions-swapped says that.
        if batch_given_first(side) is None and not any(
            name.startswith(dim.BATCH) or name == dim.SINGLE for name in feature.names
        ):
            yield side.found(f"the output [{', '.join(d.text() for d in feature.dimensions)}] has no batch dimension")
