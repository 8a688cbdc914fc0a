"""A language model is trained to repeat the token that it was given."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.external_values import given_to_models
from tb_plugin_structure.records.schema import ORIGINS

_WHOLE = frozenset({"view", "reshape", "flatten", "clone", "alias", "_to_copy", "detach", "contiguous", "_unsafe_view"})
"""Kernels that give all the values they take, in their order."""
_INPUT = ORIGINS.index("input")


@rule(
    "labels-not-shifted",
    severity="warning",
    explanation="The labels are the model's own input, position by position. A model that sees a token learns to copy "
    "it: the loss falls to 0, and nothing is learnt about the next one.",
    fix="Compare each position with the token after it: logits[:, :-1] and ids[:, 1:].",
)
def labels_not_shifted(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    for kernel, name in enumerate(loss.kernels):
        if not name.startswith("nll_loss") or len(loss.inputs(kernel)) < 2:
            continue
        scores, labels = loss.inputs(kernel)[:2]
        given = _whole(loss, labels)
        roles = loss.origin.get(scores, frozenset())
        is_sequence = len(loss.outside.shape(given)) > 1
        is_all = prod(loss.outside.shape(labels)) == prod(loss.outside.shape(given))
        if len(roles) == 1 and is_sequence and is_all and (role := _given_to(loss, given)):
            yield Finding(f"{loss.where(kernel)}: the labels are what the {role} was given", subject="outside")


def _whole(loss: RecordedLoss, tensor: int) -> int:
    """The value that another one is a rearrangement of."""
    while (kernel := int(loss.outside.tensors["producer"][tensor])) >= 0 and loss.kernels[kernel] in _WHOLE:
        tensor = loss.inputs(kernel)[0]
    return tensor


def _given_to(loss: RecordedLoss, tensor: int) -> str:
    """The model that a value went into; "" for none. What an encoder reads and a decoder writes may well be equal."""
    role = given_to_models(loss.outside, loss.models).get(tensor, "")
    if role:
        tensors = loss.models[role].tensors
        inputs = np.flatnonzero(tensors["origin"] == _INPUT).tolist()
        return "" if any("decoder" in tensors.text("name", other) for other in inputs) else role
    return ""
