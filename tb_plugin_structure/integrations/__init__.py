"""Recording as part of a training loop: a monitor for loops of one's own, callbacks for trainers.

Names load when they are used: Lightning and transformers are needed only by their callbacks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_plugin_structure.integrations.lightning_callback import LightningMonitor as LightningMonitor
    from tb_plugin_structure.integrations.monitor import StructureMonitor as StructureMonitor
    from tb_plugin_structure.integrations.transformers_callback import TransformersMonitor as TransformersMonitor

_HOMES = {
    "LightningMonitor": "lightning_callback",
    "StructureMonitor": "monitor",
    "TransformersMonitor": "transformers_callback",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
