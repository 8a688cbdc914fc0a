"""The pairs of an audit as configuration for the distillation framework in use, one file a framework.

Every function takes the rows to use and returns what the framework reads, made of dicts, lists and plain values. What
a framework cannot express is left out and named under the key ``"not expressible"``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tb_plugin_structure.analysis.audit.configurations.mmrazor import mmrazor
from tb_plugin_structure.analysis.audit.configurations.modelopt import modelopt
from tb_plugin_structure.analysis.audit.configurations.textbrewer import textbrewer
from tb_plugin_structure.analysis.audit.configurations.torchdistill import torchdistill
from tb_plugin_structure.analysis.audit.rows import Row

if TYPE_CHECKING:
    from tb_plugin_structure.analysis.audit.report import AuditReport

FRAMEWORKS: dict[str, Callable[[Sequence[Row]], dict[str, Any]]] = {
    "torchdistill": torchdistill,
    "textbrewer": textbrewer,
    "mmrazor": mmrazor,
    "modelopt": modelopt,
}


def configuration(report: AuditReport, framework: str, level: str | Sequence[str] | None) -> dict[str, Any]:
    """Configuration of a framework for the rows that `level` selects.

    Raises:
        ValueError: When the framework is not one of :data:`FRAMEWORKS`.
    """
    make = FRAMEWORKS.get(framework.lower())
    if make is None:
        raise ValueError(f"framework is {framework!r}, expected one of {', '.join(FRAMEWORKS)}")
    return make(report.selected(level))
