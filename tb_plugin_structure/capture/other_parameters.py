"""Parameters that take part in a recorded step and belong to no recorded model: adapters, a learned temperature."""

from __future__ import annotations

import torch
from torch import nn

from tb_plugin_structure.capture.values import CONSTANT, Source, Values

PARAMETER_NAME = "parameter"
TRAINED_NAME = "trained parameter"


def name_other_parameters(values: Values, optimizer: torch.optim.Optimizer | None) -> None:
    """Give constants that are parameters a name that says so, and whether the optimizer holds them."""
    constants = {row for row, source in values.sources.items() if source.origin == CONSTANT}
    if not constants:
        return
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]} if optimizer is not None else set()
    for reference in list(values.references.values()):
        if reference.row in constants and isinstance(tensor := reference(), nn.Parameter):
            name = TRAINED_NAME if id(tensor) in trained else PARAMETER_NAME
            values.sources[reference.row] = Source(CONSTANT, "", name)
