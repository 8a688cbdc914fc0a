"""A trainable parameter that no operator reads, in a module that does run."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side


@rule(
    "unused-parameter",
    severity="info",
    explanation="No operator of the pass read it, so no gradient reaches it; DistributedDataParallel stops on it.",
    fix="Remove it, use it, or pass find_unused_parameters=True.",
)
def unused_parameter(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        if not side.structure.header.HasField("error"):
            yield from _unused(side)


def _unused(side: Side) -> Iterator[Finding]:
    structure = side.structure
    for row in range(structure.parameters.rows):
        parameters = structure.parameters
        if parameters["is_buffer"][row] or not parameters["requires_grad"][row] or row in side.read_parameters:
            continue
        path = parameters.text("path", row)
        owner = path.rpartition(".")[0]
        if side.stages.active[structure.module_row.get(owner, 0)]:
            yield side.found(f"{path} ({structure.parameter_elements[row]:,} elements) was never read", owner)
