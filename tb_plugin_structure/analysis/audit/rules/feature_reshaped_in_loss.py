"""A feature is viewed under dimensions that are not its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import SOFTMAX
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.audit.rules.view_by_accident import VIEWS

_COPIES = ("clone", "contiguous")
_REORDERED = ("transpose", "permute", "t")


@rule(
    "feature-reshaped-in-loss",
    severity="error",
    explanation=(
        "A feature is reshaped to dimensions that are not its own, which works only because the number of elements "
        "happens to agree: the loss compares unrelated values."
    ),
    fix="Bring the student's feature to the teacher's shape with an adapter (report.adapters()) instead of reshaping.",
)
def feature_reshaped_in_loss(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    torn: set[int] = set()
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[str, str]]] = {}
    for kernel, name in enumerate(loss.kernels):
        if name not in VIEWS or not loss.inputs(kernel):
            continue
        source, made = loss.inputs(kernel)[0], loss.outside.kernels.values("outputs", kernel).tolist()
        if source in torn:
            torn.update(made)  # said already
        elif made and len(loss.origin.get(source, ())) == 1 and not _is_reordered(loss, source):
            shape, target = loss.outside.shape(source), loss.outside.shape(made[0])
            if tears(shape, target):
                torn.update(made)
                role = next(iter(loss.origin[source]))
                what = loss.outside.tensors.text("name", source) or f"a value of the {role}"
                message = f"{what} {list(shape)} is viewed as {list(target)} ({loss.where(kernel)})"
                found.setdefault((shape, target), []).append((role, message))
    for views in found.values():
        # Groups of either model alike may be compared value by value; they are no distributions.
        alike = len({role for role, _ in views}) == 2 and not _reach_a_softmax(loss, torn)
        yield from (Finding(message, "outside", severity="info" if alike else "") for _, message in views)
    yield from _flattened(loss, torn)


def _reach_a_softmax(loss: RecordedLoss, torn: set[int]) -> bool:
    reached = set(torn)
    for kernel, name in enumerate(loss.kernels):
        if not reached.isdisjoint(loss.inputs(kernel)):
            if name in SOFTMAX:
                return True
            reached.update(loss.outside.kernels.values("outputs", kernel).tolist())
    return False


def _flattened(loss: RecordedLoss, torn: set[int]) -> Iterator[Finding]:
    """Two maps of different shape that are compared as two rows of numbers."""
    for kernel, values in loss.meetings():
        if not loss.is_elementwise(kernel) or torn.intersection(values):
            continue
        teacher, student = (loss.outside.shape(_before_views(loss, tensor)) for tensor in values)
        if min(len(teacher), len(student)) > 2 and tears(teacher, student):
            yield Finding(
                f"{loss.where(kernel)} compares a teacher's {list(teacher)} with a student's {list(student)}, both as "
                f"{list(loss.outside.shape(values[0]))}",
                "outside",
            )


def tears(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a view joins and splits the same dimensions at once, so that pieces of several lie in one.

    >>> tears((4, 8, 8, 8), (4, 32, 4, 4)), tears((4, 12, 10), (8, 60))
    (True, True)
    >>> tears((4, 32, 4, 4), (4, 32, 16)), tears((4, 5, 768), (20, 12, 64))
    (False, False)
    """
    left, right = [[size for size in sizes if size != 1] for sizes in (shape, target)]
    while left and right:
        first, second = left.pop(0), right.pop(0)
        joined = split = 1
        while first != second:
            if first < second and left:
                first *= left.pop(0)
                joined += 1
            elif second < first and right:
                second *= right.pop(0)
                split += 1
            else:
                return False  # not the same number of elements: no view of one another
        if joined > 1 and split > 1:
            return True
    return False


def _is_reordered(loss: RecordedLoss, tensor: int) -> bool:
    """Whether dimensions were exchanged before, as where heads are joined and split again in another number."""
    kernel = int(loss.outside.tensors["producer"][tensor])
    while kernel >= 0 and loss.kernels[kernel] in _COPIES:
        kernel = int(loss.outside.tensors["producer"][loss.inputs(kernel)[0]])
    return kernel >= 0 and loss.kernels[kernel] in _REORDERED


def _before_views(loss: RecordedLoss, tensor: int) -> int:
    kernel = int(loss.outside.tensors["producer"][tensor])
    while kernel >= 0 and loss.kernels[kernel] in (*VIEWS, *_COPIES):
        tensor = loss.inputs(kernel)[0]
        kernel = int(loss.outside.tensors["producer"][tensor])
    return tensor
