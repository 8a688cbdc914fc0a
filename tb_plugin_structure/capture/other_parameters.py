"""Parameters that take part in a recorded step and belong to no recorded model: adapters, a learned temperature."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import nn

from tb_plugin_structure.capture.values import CONSTANT, Source, Values

PARAMETER_NAME = "parameter"
TRAINED_NAME = "trained parameter"


def held_by(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Ids of the parameters that optimizers hold."""
    return {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}


def name_other_parameters(values: Values, trained: Collection[int]) -> None:
    """Give constants that are parameters a name that says so, and whether an optimizer holds them; `trained` are the
    ids of those."""
    constants = {row for row, source in values.sources.items() if source.origin == CONSTANT}
    if not constants:
        return
    for reference in list(values.references.values()):
        if reference.row in constants and isinstance(tensor := reference(), nn.Parameter):
            name = TRAINED_NAME if id(tensor) in trained else PARAMETER_NAME
            values.sources[reference.row] = Source(CONSTANT, "", name)
