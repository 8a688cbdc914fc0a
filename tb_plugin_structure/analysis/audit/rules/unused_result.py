"""Products are computed whose results reach no output."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.liveness import live_kernels
from tb_plugin_structure.analysis.audit.rules.repeated_computation import NOTEWORTHY_SHARE
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "unused-result",
    severity="warning",
    explanation="What is computed here reaches no output of the model: the time is wasted, and nothing in it learns.",
    fix="Remove it, or return its result.",
)
def unused_result(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        header = side.structure.header
        if not header.HasField("error") and side.structure.module_calls.rows:
            yield from _unused(side, context)


def _unused(side: Side, context: Context) -> Iterator[Finding]:
    structure = side.structure
    macs = structure.kernels["macs"]
    live = live_kernels(side, context)
    wasted = [kernel for kernel in range(structure.kernels.rows) if macs[kernel] > 0 and not live[kernel]]
    if not wasted:
        return
    total, lost = float(macs[macs > 0].sum()), float(macs[wasted].sum())
    path = side.path_of_kernel(wasted[0])
    yield side.found(
        f"the results of {counted(len(wasted), 'product')} ({lost / total:.1%} of the MACs) are never used, first in "
        f"{path or 'the model'}{side.source_of_kernel(wasted[0])}",
        path,
        severity="warning" if lost / total >= NOTEWORTHY_SHARE else "info",
    )
