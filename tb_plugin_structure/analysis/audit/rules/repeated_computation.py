"""The same product of the same values is computed twice."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted

NOTEWORTHY_SHARE = 0.01
"""Share of a model's MACs below which waste is only worth a remark."""


@rule(
    "repeated-computation",
    severity="warning",
    explanation="The same kernel ran on the same values with the same arguments before: the time is spent twice.",
    fix="Compute it once and keep the result.",
)
def repeated_computation(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        yield from _repeated(side)


def _repeated(side: Side) -> Iterator[Finding]:
    structure = side.structure
    macs = structure.kernels["macs"]
    macs_of, arguments = macs.tolist(), structure.kernels["arguments"].tolist()
    seen: set[tuple[str, tuple[int, ...], int]] = set()
    again: list[int] = []
    for kernel, name in enumerate(side.names.kernel_names):
        if not macs_of[kernel] > 0:
            continue
        key = (name, tuple(side.names.inputs[kernel]), arguments[kernel])  # equal texts have one number
        if key in seen:
            again.append(kernel)
        seen.add(key)
    if not again:
        return
    total = float(macs[macs > 0].sum())
    wasted = float(macs[again].sum())
    path = side.path_of_kernel(again[0])
    yield side.found(
        f"{counted(len(again), 'product')} computed before ({wasted / total:.1%} of the MACs), first in "
        f"{path or 'the model'}{side.source_of_kernel(again[0])}",
        path,
        severity="warning" if wasted / total >= NOTEWORTHY_SHARE else "info",
    )
