"""The output of a model, where the record says what its dimensions mean."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.side import Side


def clear_output(side: Side) -> Feature | None:
    """The model's output as a feature; None where it is unclear, no floating tensor, or the pass failed."""
    if not side.structure.module_calls.rows or side.structure.header.HasField("error"):
        return None
    feature = side.feature(0)
    return feature if feature.is_floating and feature.tensor >= 0 and dim.UNKNOWN not in feature.names else None
