"""Parameters that take part in a recorded step and belong to no recorded model: adapters, a learned temperature."""

from __future__ import annotations

import torch
from torch import nn

from tb_plugin_structure.capture.values import CONSTANT, Source, Values

PARAMETER_NAME = "parameter"
TRAINED_NAME = "trained parameter"


def name_other_parameters(values: Values, optimizer: torch.optim.Optimizer | None) -> None:
    """Give constants that are parameters a name that says so, and whether the optimizer holds them."""
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]} if optimizer is not None else set()
    for reference in list(values.references.values()):
        tensor = reference()
        if isinstance(tensor, nn.Parameter):
            source = values.sources.get(reference.row)
            if source is not None and source.origin == CONSTANT:
                name = TRAINED_NAME if id(tensor) in trained else PARAMETER_NAME
                values.sources[reference.row] = Source(CONSTANT, "", name)
