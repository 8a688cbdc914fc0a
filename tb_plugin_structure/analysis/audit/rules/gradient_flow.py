"""Where the gradient of the recorded step went: measured, not guessed."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule


def _parameters(context: Context, role: str, quantity: str, value: float) -> list[str]:
    """Parameters of a side for which the step measured a value of a quantity."""
    measurement = context.measurements.get(role)
    if measurement is None or quantity not in measurement.table:
        return []
    return [path for path, measured in measurement.quantity(quantity, subject=1).items() if measured == value]


@rule(
    "no-gradient",
    severity="warning",
    explanation="It requires a gradient, but the backward pass of the step did not reach it: it never learns.",
    fix="Look for detach(), no_grad(), an integer cast or an unused output between it and the loss.",
)
def no_gradient(context: Context) -> Iterator[Finding]:
    missed = _parameters(context, "student", "gradient_reached", 0.0)
    if missed:
        owner = missed[0].rpartition(".")[0]
        yield context.student.found(f"no gradient reached {len(missed)} parameters, first {missed[0]}", owner)


@rule(
    "teacher-receives-gradient",
    severity="warning",
    explanation="The loss is not detached from the teacher: its backward pass runs as well, and costs memory and time.",
    fix="Run the teacher under torch.no_grad(), or detach its outputs in the loss.",
)
def teacher_receives_gradient(context: Context) -> Iterator[Finding]:
    reached = _parameters(context, "teacher", "gradient_reached", 1.0)
    if reached and context.outside is not None:  # without a loss between the two it was a backward pass of its own
        owner = reached[0].rpartition(".")[0]
        yield context.teacher.found(f"a gradient reached {len(reached)} parameters, first {reached[0]}", owner)


@rule(
    "teacher-in-optimizer",
    severity="error",
    explanation="The optimizer updates the teacher: weight decay alone changes it, and the targets move.",
    fix="Give the optimizer the parameters of the student and of the adapters only.",
)
def teacher_in_optimizer(context: Context) -> Iterator[Finding]:
    held = _parameters(context, "teacher", "in_optimizer", 1.0)
    if held:
        yield context.teacher.found(f"the optimizer holds {len(held)} parameters of the teacher, first {held[0]}")


@rule(
    "student-not-in-optimizer",
    severity="warning",
    explanation="It requires a gradient, but the optimizer of the step does not hold it: it is never updated.",
    fix="Add it to the optimizer, or set requires_grad to False.",
)
def student_not_in_optimizer(context: Context) -> Iterator[Finding]:
    trained = set(_parameters(context, "student", "requires_grad", 1.0))
    left_out = [path for path in _parameters(context, "student", "in_optimizer", 0.0) if path in trained]
    if left_out:
        yield context.student.found(f"the optimizer leaves out {len(left_out)} parameters, first {left_out[0]}")
