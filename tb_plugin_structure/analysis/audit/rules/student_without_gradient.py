"""The loss of the step does not reach the student at all."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


@rule(
    "student-without-gradient",
    severity="error",
    explanation="Nothing that the step computes from the student carries a gradient back to it: whatever the loss "
    "says, no weight of the student moves.",
    fix="Run the student outside no_grad(), without detach(), .item() or .data on what the loss uses, and with "
    "requires_grad=True on its parameters.",
)
def student_without_gradient(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or loss.outside.header.HasField("error"):
        return  # step-failed says more
    if parameters_with(context, "student", "gradient_reached", 1.0):
        return
    features = [
        tensor
        for tensor, roles in loss.origin.items()
        if roles == {"student"}
        and loss.outside.tensors["producer"][tensor] < 0
        and loss.outside.tensors.text("dtype", tensor).startswith(("float", "bfloat"))
    ]
    used = set().union(*(loss.origin.get(tensor, frozenset()) for tensor in loss.part_of_loss))
    if used == {"teacher"} and parameters_with(context, "student", "in_optimizer", 1.0):
        yield context.student.found("no gradient can reach the student: the loss is computed from nothing of it")
        return
    first_reader = _first_reader(loss, features)
    if first_reader < 0 or not _trains(context, loss) or _carries_on(loss, features):
        return
    yield context.student.found(
        f"no gradient can reach the student: {_reason(context, loss, features, first_reader)}",
        severity="info" if _is_left_out(context) else "",
    )


def _is_left_out(context: Context) -> bool:
    """Whether the student is frozen and in no optimizer: what is trained is an adapter before it, on purpose."""
    side = context.student
    frozen = not any(side.structure.parameters["requires_grad"][row] for row in side.own_parameters(0))
    return frozen and not parameters_with(context, side.role, "in_optimizer", 1.0)


def _trains(context: Context, loss: RecordedLoss) -> bool:
    """Whether the step is one of training: something carries a gradient, or the optimizer holds the student while it is
    in training mode."""
    made = loss.outside.tensors["producer"] >= 0
    if bool((loss.outside.tensors["requires_grad"][made] != 0).any()):
        return True
    is_training = bool(context.student.structure.modules["training"].any())
    return is_training and bool(parameters_with(context, "student", "in_optimizer", 1.0))


def _carries_on(loss: RecordedLoss, features: list[int]) -> bool:
    """Whether a value that was made of the student's features between the models still has their gradient."""
    tensors = loss.outside.tensors
    live = {feature for feature in features if tensors["requires_grad"][feature]}
    for kernel, name in enumerate(loss.kernels):
        if name != "detach" and any(tensor in live for tensor in loss.inputs(kernel)):
            made = loss.outside.kernels.values("outputs", kernel).tolist()
            if any(tensors["requires_grad"][tensor] for tensor in made):
                return True
    return False


def _first_reader(loss: RecordedLoss, features: list[int]) -> int:
    known = set(features)
    return next((kernel for kernel in range(len(loss.kernels)) if known & set(loss.inputs(kernel))), -1)


def _reason(context: Context, loss: RecordedLoss, features: list[int], reader: int) -> str:
    side = context.student
    parameters = side.own_parameters(0)
    if parameters and not any(side.structure.parameters["requires_grad"][row] for row in parameters):
        return "none of its parameters requires one"
    if not any(loss.outside.tensors["requires_grad"][feature] for feature in features):
        return f"what {loss.where(reader)} takes of it carries none (no_grad() or detach() around its forward pass)"
    return f"{loss.where(reader)} cuts it off"
