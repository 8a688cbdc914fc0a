"""Higher-order operators (``cond``, ``flex_attention``) under a dispatch mode, also for releases of torch before 2.7.

Newer ones call a mode that says ``supports_higher_order_operators``. Older ones look the mode's class up in a table of
each operator, and raise where it is not listed, which would end the user's pass. There the class is listed for as long
as its mode is entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

MODES_ARE_ASKED = hasattr(TorchDispatchMode, "supports_higher_order_operators")


class HigherOrderMode(TorchDispatchMode):
    """A mode whose handler also gets higher-order operators."""

    supports_higher_order_operators = True

    if not MODES_ARE_ASKED:

        def __enter__(self) -> Any:
            for operator in _operators():
                operator.python_key_table[type(self)] = _handler(operator)
            return super().__enter__()  # type: ignore[no-untyped-call]

        def __exit__(self, *failure: Any) -> None:
            super().__exit__(*failure)  # type: ignore[no-untyped-call]
            for operator in _operators():
                operator.python_key_table.pop(type(self), None)


def _operators() -> list[Any]:
    import torch._higher_order_ops  # those that nobody has used yet are made here

    return [one for one in torch._ops._higher_order_ops.values() if hasattr(one, "python_key_table")]


def _handler(operator: Any) -> Callable[..., Any]:
    def handle(mode: Any, *args: Any, **kwargs: Any) -> Any:
        return mode.__torch_dispatch__(operator, [], args, kwargs)

    return handle
