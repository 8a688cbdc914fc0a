"""Which values of a recorded step's outside record a model made, and which it was only given.

Both carry the model's name in the record: a mask that went into the student first and then chose the rows of the loss
is the student's argument, and no feature of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tb_plugin_structure.records.structure import Structure

_INPUT, _EXTERNAL = 1, 5
"""Values of ``tensors.origin``: a model's argument, what a model of the step made or was given."""


def made_by_models(outside: Structure, models: Mapping[str, Structure]) -> dict[int, str]:
    """Row of each value that a model made, or of a parameter of it -> the model's key in `models`."""
    return {tensor: role for tensor, role, given in _of_models(outside, models) if not given}


def given_to_models(outside: Structure, models: Mapping[str, Structure]) -> dict[int, str]:
    """Row of each value that a model was called with, and did not make -> the model's key in `models`."""
    return {tensor: role for tensor, role, given in _of_models(outside, models) if given}


def model_row(outside: Structure, tensor: int, model: Structure) -> int:
    """Row of an external value in the record of its model; -1 where that is not known."""
    row = int(outside.tensors["model_tensor"][tensor]) if "model_tensor" in outside.tensors else -1
    # A model that did not change is not written again: its record may be of an earlier step, and equal.
    return row if 0 <= row < model.tensors.rows and model.shape(row) == outside.shape(tensor) else -1


def takes_a_gradient(model: Structure) -> bool:
    """Whether a gradient goes through a model to what made its input."""
    tensors = model.tensors
    given = (tensors["origin"] == _INPUT) | (tensors["origin"] == _EXTERNAL)
    return bool((given & tensors["requires_grad"].astype(bool)).any())


def _of_models(outside: Structure, models: Mapping[str, Structure]) -> Iterator[tuple[int, str, bool]]:
    role_of = {structure.name: role for role, structure in models.items()}
    for tensor in np.flatnonzero(outside.tensors["origin"] == _EXTERNAL).tolist():
        role = role_of.get(outside.tensors.text("name", tensor).partition("/")[0])
        if role is not None:
            row = model_row(outside, tensor, models[role])
            yield tensor, role, row >= 0 and int(models[role].tensors["origin"][row]) == _INPUT
