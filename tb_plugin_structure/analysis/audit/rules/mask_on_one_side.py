"""The teacher is told which positions are padding, the student is not, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side

_MASKS = ("attention_mask", "padding_mask", "key_padding_mask", "src_key_padding_mask", "encoder_attention_mask")

_SOFTMAXES = ("_softmax", "softmax", "_safe_softmax")
"""The last one is in fused attention that is computed step by step, as it is with a bias or on the CPU in training."""


@rule(
    "mask-on-one-side",
    severity="warning",
    explanation="Both models take the same inputs but one of them gets no mask: there every position also attends to "
    "the padding, and its features differ from the other's for that alone.",
    fix="Pass the same attention_mask to both; silence this where nothing is padded.",
)
def mask_on_one_side(context: Context) -> Iterator[Finding]:
    inputs = [_inputs(side) for side in context.sides]
    if not (inputs[0] - set(_MASKS)) & (inputs[1] - set(_MASKS)):
        return  # two kinds of models
    for mask in _MASKS:
        for side, given, others in zip(context.sides, inputs, reversed(inputs), strict=True):
            if mask in others and not given & set(_MASKS) and _attends(side):
                role = "student" if side.role == "teacher" else "teacher"
                yield side.found(f"the {role} is given {mask}, the {side.role} is not")
                return


def _inputs(side: Side) -> set[str]:
    """Names of the tensors that the model itself was given."""
    calls = side.structure.module_calls
    return {name.rpartition(".")[2] for name in calls.texts("input_names", 0)} if calls.rows else set()


def _attends(side: Side) -> bool:
    return any(name in _SOFTMAXES or "attention" in name for name in side.names.kernel_names)
