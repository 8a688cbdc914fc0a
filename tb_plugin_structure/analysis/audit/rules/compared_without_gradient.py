"""A value of the student that is compared with the teacher's, and through which no gradient goes back."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_terms import distances
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss

_SUMMING = frozenset({"add", "sub", "mul", "div", "neg", "mean", "sum"})
_WEIGHING = frozenset({"mul", "div", "where", "index", "masked_select", "masked_fill", "bmm", "mm", "dot", "gather"})


@rule(
    "compared-without-gradient",
    severity="warning",
    explanation="The loss compares a feature of the student with the teacher's, but nothing goes back to the student: "
    "this term teaches it nothing.",
    fix="Compare what carries a gradient: remove the detach() or no_grad() on the student's side, and do not compare "
    "indices (argmax) or rounded values.",
)
def compared_without_gradient(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    live, cut_by = _gradient_paths(loss)
    useful = _reaches_a_gradient(loss)
    alive: set[int] = set()
    terms = _terms_without_gradient(loss)
    # The student's feature -> kernel that compares it, kernel that cut it
    dead: dict[int, tuple[int, int]] = {}
    dead_terms: set[int] = set()
    for kernel, (_, student) in loss.meetings():
        features = {feature for feature in live if student in live[feature] or student in cut_by[feature]}
        for feature in features:
            if student in live[feature]:
                alive.add(feature)
            elif useful[kernel] and not _is_weight(loss, kernel):
                is_term = kernel in terms
                if feature not in dead or (is_term and feature not in dead_terms):
                    dead[feature] = (kernel, cut_by[feature][student])
                dead_terms.update({feature} if is_term else ())
    for feature, (kernel, cut) in dead.items():
        if feature not in alive or feature in dead_terms:
            path = loss.outside.tensors.text("name", feature).partition("/")[2]
            if cut >= 0:
                why = f"{loss.where(cut)} lets no gradient back"
            else:
                path, why = _left_without(context, loss, feature, path)
            compares = f"{loss.where(kernel)} compares {path or 'the output'} with the teacher's"
            yield context.student.found(f"{compares}, but {why}", path)


def _terms_without_gradient(loss: RecordedLoss) -> set[int]:
    """Kernels of distances that carry no gradient at all and are added to a loss that does: they teach nobody, also
    where another term compares the same feature."""
    found: set[int] = set()
    for term in distances(loss):
        if not loss.outside.tensors["requires_grad"][term.result] and _is_summand(loss, term.result):
            found.update(k for k, at in enumerate(loss.outside.kernels["operator"].tolist()) if at == term.operator)
    return found


def _is_summand(loss: RecordedLoss, tensor: int) -> bool:
    """Whether a number is only scaled before it is added to one that carries a gradient, which is only scaled and
    summed up itself."""
    after, has_joined = int(loss.outside.tensors["producer"][tensor]), False
    while (reader := next((k for k in range(after + 1, len(loss.kernels)) if tensor in loss.inputs(k)), -1)) >= 0:
        outputs = loss.outside.kernels.values("outputs", reader).tolist()
        if loss.kernels[reader] not in _SUMMING or len(outputs) != 1 or loss.outside.shape(outputs[0]):
            return False
        after, tensor = reader, int(outputs[0])
        has_joined = has_joined or bool(loss.outside.tensors["requires_grad"][tensor])
        if has_joined and loss.kernels[reader] == "mul" and len(loss.inputs(reader)) > 1:
            return False
    return has_joined


def _left_without(context: Context, loss: RecordedLoss, feature: int, path: str) -> tuple[str, str]:
    """Path of a feature that had no gradient before the loss began, and why: a hook or the model itself detached it."""
    side = context.student
    tensor = loss.model_tensor(feature, side.structure)
    kernel = int(side.structure.tensors["producer"][tensor]) if tensor >= 0 else -1
    if kernel < 0 or side.names.kernel_names[kernel] != "detach":
        return path, "it carries no gradient"
    calls = side.structure.module_calls.column_lists("outputs")
    returned_by = (call for call in range(len(calls) - 1, -1, -1) if side.names.inputs[kernel][0] in calls[call])
    call = next(returned_by, -1)
    path = side.structure.call_path(call) if call >= 0 else path
    return path, f"detach{side.source_of_kernel(kernel)} took its gradient away"


def _gradient_paths(loss: RecordedLoss) -> tuple[dict[int, set[int]], dict[int, dict[int, int]]]:
    """For each feature of the student that carries a gradient: the values that it reaches with one, and the values that
    it reaches without, with the kernel after which there was none; -1 where it never had one."""
    tensors = loss.outside.tensors
    features = [t for t, roles in loss.origin.items() if roles == {"student"} and tensors["producer"][t] < 0]
    features = [t for t in features if tensors.text("dtype", t).startswith(("float", "bfloat"))]
    carries = {feature: bool(tensors["requires_grad"][feature]) for feature in features}
    live = {feature: {feature} if carries[feature] else set() for feature in features}
    cut_by: dict[int, dict[int, int]] = {feature: {} if carries[feature] else {feature: -1} for feature in features}
    for kernel in range(loss.outside.kernels.rows):
        reads = loss.inputs(kernel)
        for feature in features:
            reached = [t for t in reads if t in live[feature] or t in cut_by[feature]]
            if not reached:
                continue
            # The record holds what a tensor requires in the end: detach().requires_grad_() looks alive again.
            is_cut = loss.kernels[kernel] == "detach"
            was_live = any(t in live[feature] for t in reached)
            goes_on = was_live and not is_cut
            for made in loss.outside.kernels.values("outputs", kernel).tolist():
                if goes_on and tensors["requires_grad"][made]:
                    live[feature].add(made)
                    cut_by[feature].pop(made, None)
                elif made not in live[feature]:
                    before = next((cut_by[feature][t] for t in reached if t in cut_by[feature]), kernel)
                    cut_by[feature].setdefault(made, kernel if was_live else before)
    return live, cut_by


def _is_weight(loss: RecordedLoss, kernel: int) -> bool:
    """Whether what a comparison gave, without a gradient, multiplies or chooses among values of the student that carry
    one: it weighs the examples of another term, and is no term itself."""
    tensors = loss.outside.tensors
    reached = set(loss.outside.kernels.values("outputs", kernel).tolist())
    for later in range(kernel + 1, loss.outside.kernels.rows):
        reads = loss.inputs(later)
        if reached.isdisjoint(reads):
            continue
        others = [tensor for tensor in reads if tensor not in reached and "student" in loss.origin.get(tensor, ())]
        if any(tensors["requires_grad"][tensor] for tensor in others):
            return loss.kernels[later] in _WEIGHING
        reached.update(loss.outside.kernels.values("outputs", later).tolist())
    return False


def _reaches_a_gradient(loss: RecordedLoss) -> list[bool]:
    """For each kernel whether what it made goes into something that carries a gradient, as a loss does and a metric
    does not."""
    kernels, tensors = loss.outside.kernels, loss.outside.tensors
    useful: set[int] = set()
    found = [False] * kernels.rows
    for kernel in range(kernels.rows - 1, -1, -1):
        made = kernels.values("outputs", kernel).tolist()
        found[kernel] = any(tensors["requires_grad"][t] or t in useful for t in made)
        if found[kernel]:
            useful.update(loss.inputs(kernel))
    return found
