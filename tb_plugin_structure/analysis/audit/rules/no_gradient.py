"""Parameters of the student that the backward pass of the step did not reach."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.gradient_cut import cuts
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted

_SHOWN = 4
_COMPARISONS = tuple(
    f"cut by {name},"
    for name in (">", ">=", "<", "<=", "==", "!=", "gt", "ge", "lt", "le", "eq", "ne", "greater", "less")
)
_STRAIGHT_THROUGH = (
    "Let the gradient pass straight through: soft = scores.sigmoid(); mask = soft + ((scores > 0).float() - soft)"
    ".detach()."
)


@rule(
    "no-gradient",
    severity="warning",
    explanation="It requires a gradient, but the backward pass of the step did not reach it: it never learns.",
    fix="Look at the operator that cuts it: detach(), no_grad(), an integer cast, or an output that no loss uses.",
)
def no_gradient(context: Context) -> Iterator[Finding]:
    if context.outside is not None and context.outside.header.HasField("error"):
        return  # the backward pass ended early, or never began
    missed = parameters_with(context, "student", "gradient_reached", 0.0)
    by_reason: dict[str, list[str]] = {}  # one operator often cuts off many parameters
    for path, reason in cuts(context.student, missed).items() if missed else ():
        by_reason.setdefault(reason, []).append(path)
    for reason, paths in list(by_reason.items())[:_SHOWN]:
        owner = paths[0].rpartition(".")[0]
        count = counted(len(paths), "parameter")
        message = f"no gradient reached {count}, first {paths[0]}: {reason}"
        is_step = reason.startswith(_COMPARISONS)
        yield context.student.found(message, owner, fix=_STRAIGHT_THROUGH if is_step else "")
    rest = list(by_reason.values())[_SHOWN:]
    if rest:
        yield context.student.found(
            f"no gradient reached {counted(sum(map(len, rest)), 'more parameter')}, first {rest[0][0]}"
        )
