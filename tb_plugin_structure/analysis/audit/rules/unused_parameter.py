"""A trainable parameter that no operator reads, in a module that does run."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.liveness import live_kernels
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted


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
    structure, parameters = side.structure, side.structure.parameters
    effective = _read_by_live_kernels(side, context)
    by_module: dict[tuple[str, bool], list[int]] = {}  # weight and bias of one layer are one finding
    for row in range(parameters.rows):
        if parameters["is_buffer"][row] or not parameters["requires_grad"][row] or row in effective:
            continue
        owner = parameters.text("path", row).rpartition(".")[0]
        if side.stages.active[structure.module_row.get(owner, 0)]:
            by_module.setdefault((owner, row in side.read_parameters), []).append(row)
    for (owner, is_read), rows in by_module.items():
        elements = sum(int(structure.parameter_elements[row]) for row in rows)
        first = parameters.text("path", rows[0])
        which = (
            f"{first} ({counted(elements, 'element')})"
            if len(rows) == 1
            else (f"{counted(len(rows), 'parameter')} ({counted(elements, 'element')}), first {first},")
        )
        verb = "reach" if len(rows) > 1 else "reaches"
        what = f"{verb} no output" if is_read else "were never read" if len(rows) > 1 else "was never read"
        yield side.found(f"{which} {what}", owner)


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
