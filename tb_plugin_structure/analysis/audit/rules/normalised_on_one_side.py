"""A feature divided by its length is compared with one that is not, or along another dimension."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import PRODUCTS, Made, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss

_DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub"})
_TO_NORM = frozenset({"expand", "clamp_min", "clamp", "add", "unsqueeze", "view", "maximum"})


@rule(
    "normalised-on-one-side",
    severity="warning",
    explanation="A distance is taken between a feature of length 1 and one of any length, or between two that have "
    "length 1 along different dimensions: the student can never meet the teacher.",
    fix="F.normalize(…, dim=…) both sides along the same dimension, or neither.",
)
def normalised_on_one_side(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    for kernel, values in loss.meetings():
        if loss.kernels[kernel] not in _DISTANCES:
            continue
        rank = len(loss.outside.shape(values[0]))
        makers = [made_by(loss, sides, tensor) for tensor in values]
        axes = [_normalised(loss, made, rank) for made in makers]
        for role, own, other, maker in zip(("teacher", "student"), axes, reversed(axes), reversed(makers), strict=True):
            if own and not other and maker is not None and (maker.role or maker.kernel in PRODUCTS):
                if maker.kernel in ("div", "mul", "linalg_vector_norm"):
                    continue  # normalised by the model itself
                others = "student" if role == "teacher" else "teacher"
                yield Finding(
                    f"{loss.where(kernel)}: only the {role}'s side is normalised, not the {others}'s", "outside"
                )
        if all(axes) and axes[0] != axes[1] and len(makers[0].shape) == len(makers[1].shape):  # type: ignore[union-attr]
            along = [", ".join(map(str, axis)) for axis in axes]
            yield Finding(
                f"{loss.where(kernel)}: the teacher is normalised along dimension {along[0]}, "
                f"the student along {along[1]}",
                "outside",
            )


def _normalised(loss: RecordedLoss, made: Made | None, rank: int) -> tuple[int, ...]:
    """The dimensions along which a value was divided by its own length; empty where it was not."""
    if made is None or made.role or made.kernel != "div" or len(made.inputs) != 2:
        return ()
    value, tensor = made.inputs
    while (kernel := int(loss.outside.tensors["producer"][tensor])) >= 0:
        if loss.kernels[kernel] in ("linalg_vector_norm", "norm"):
            axes = kernel_arguments(loss.outside, kernel).integers(2, "dim") or []
            return tuple(sorted(axis % rank for axis in axes)) if loss.inputs(kernel)[0] == value else ()
        if loss.kernels[kernel] not in _TO_NORM or not loss.inputs(kernel):
            return ()
        tensor = loss.inputs(kernel)[0]
    return ()
