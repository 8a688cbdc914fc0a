"""Modules that take [tokens, batch, …] and are given [batch, tokens, …]."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.side import Side


def batch_given_first(side: Side) -> tuple[int, tuple[Dimension, ...]] | None:
    """(call, dimensions of its input) of the first module with batch_first=False whose input comes from an image or a
    signal with the batch in front."""
    structure = side.structure
    for call in side.names.sequence_first_calls:
        inputs = structure.module_calls.values("inputs", call).tolist()
        label = side.names.traced(inputs[0]) if inputs else None
        if label is None or len(label) != 3 or label[0].name != dim.BATCH:
            continue
        if label[1].name == dim.LENGTH or (label[1].name == dim.TOKENS and label[1].grid is not None):
            return call, tuple(label)
    return None
