"""Where a model asked about a size: the line that made a symbol a number, or a condition true.

A symbol stays free until somebody asks: ``len(x)``, ``int(n)``, ``range(n)`` and a comparison make torch decide.
It remembers the decision as a guard. The guard says what was decided, the Python stack at that moment says who asked.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tb_plugin_structure.capture.call_sites import relative_file

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN = __file__.rpartition("capture")[0]


class QuestionedShapes(ShapeEnv):
    """A ``ShapeEnv`` that notes for each guard the line of user code which brought it about."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked_at: dict[Any, str] = {}
        """What was decided -> 'file:line'."""

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        before = len(self.guards)
        result = super().evaluate_expr(*args, **kwargs)
        if len(self.guards) > before:
            line = _asking_line()
            for guard in self.guards[before:]:
                self.asked_at.setdefault(guard.expr, line)
        return result

    def asked_about(self, symbol: Any) -> str:
        """'file:line' of what made a symbol a number or another symbol; '' when that is not known."""
        mentioned = [expression for expression in self.asked_at if symbol in expression.free_symbols]
        decisive = [each for each in mentioned if type(each).__name__ == "Equality"]
        return self.asked_at[(decisive or mentioned)[0]] if mentioned else ""


def _asking_line() -> str:
    """'file:line' of the innermost frame that is neither torch's nor ours."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((_TORCH, _OWN)) and not filename.startswith("<"):
            return f"{relative_file(filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
