"""A trainable parameter that no operator reads, in a module that does run."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.liveness import live_kernels
from tb_plugin_structure.analysis.audit.side import Side


@rule(
    "unused-parameter",
    severity="info",
    explanation=(
        "No operator of the pass read it, or none whose result reaches the output: no gradient arrives, and "
        "DistributedDataParallel stops on it."
    ),
    fix="Remove it, use its result, or pass find_unused_parameters=True.",
)
def unused_parameter(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        if not side.structure.header.HasField("error"):
            yield from _unused(side, context)


def _unused(side: Side, context: Context) -> Iterator[Finding]:
    structure = side.structure
    effective = _read_by_live_kernels(side, context)
    for row in range(structure.parameters.rows):
        parameters = structure.parameters
        if parameters["is_buffer"][row] or not parameters["requires_grad"][row] or row in effective:
            continue
        path = parameters.text("path", row)
        owner = path.rpartition(".")[0]
        what = "reaches no output" if row in side.read_parameters else "was never read"
        if side.stages.active[structure.module_row.get(owner, 0)]:
            yield side.found(f"{path} ({structure.parameter_elements[row]:,} elements) {what}", owner)


def _read_by_live_kernels(side: Side, context: Context) -> set[int]:
    """Rows of the parameters whose values reach an output."""
    rows = side.structure.tensors["parameter"].tolist()
    live = live_kernels(side, context)
    reads = side.names.also_reads
    return {
        rows[tensor]
        for kernel, alive in enumerate(live)
        if alive
        for tensor in (*side.names.inputs[kernel], *reads[kernel])
        if rows[tensor] >= 0
    }
