"""Record what PyTorch models really executed, and compare teacher and student inside TensorBoard.

>>> from tb_plugin_structure import StructureWriter
>>> with StructureWriter("runs/kd") as writer:
...     writer.add_structure("teacher", teacher, (images,))
...     writer.add_structure("student", student, (images,))

Names load when they are used: ``import tb_plugin_structure`` imports neither torch nor TensorBoard.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_plugin_structure.analysis.alignment import Alignment as Alignment
    from tb_plugin_structure.analysis.alignment import align as align
    from tb_plugin_structure.analysis.audit import AuditReport as AuditReport
    from tb_plugin_structure.analysis.audit import audit as audit
    from tb_plugin_structure.analysis.compared_features import compared_features as compared_features
    from tb_plugin_structure.capture import AttentionOptions as AttentionOptions
    from tb_plugin_structure.capture import CaptureFailed as CaptureFailed
    from tb_plugin_structure.capture import capture as capture
    from tb_plugin_structure.capture import log_attention as log_attention
    from tb_plugin_structure.capture import observe as observe
    from tb_plugin_structure.capture import register_macs as register_macs
    from tb_plugin_structure.distill import DistillationPlan as DistillationPlan
    from tb_plugin_structure.integrations import StructureMonitor as StructureMonitor
    from tb_plugin_structure.records.quantities import Quantity as Quantity
    from tb_plugin_structure.records.structure import Structure as Structure
    from tb_plugin_structure.writer import StructureWriter as StructureWriter

__version__ = "0.1.0"

_HOMES = {
    "Alignment": "analysis.alignment",
    "AttentionOptions": "capture",
    "AuditReport": "analysis.audit",
    "CaptureFailed": "capture",
    "DistillationPlan": "distill",
    "Quantity": "records.quantities",
    "Structure": "records.structure",
    "StructureMonitor": "integrations",
    "StructureWriter": "writer",
    "align": "analysis.alignment",
    "audit": "analysis.audit",
    "capture": "capture",
    "compared_features": "analysis.compared_features",
    "log_attention": "capture",
    "observe": "capture",
    "register_macs": "capture",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ImportError(
                f"{name} needs PyTorch; install it with: pip install 'tensorboard-plugin-structure[torch]'"
            ) from error
        raise
    value = getattr(module, name)
    # A function and its package share a name ("capture"): keep the function, whatever the import system set.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
