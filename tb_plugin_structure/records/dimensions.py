"""Expressions of symbolic dimensions: what a size becomes when the inputs have other sizes.

>>> predict("(H+31)//32", {"H": 224})
7

An expression is Python over whole numbers and the names of the input dimensions: ``+ - * // % **``, comparisons,
``min``, ``max``, and for sizes that the model computed in floating point ``/``, ``floor``, ``ceil``, ``trunc`` and
``round``. It is read, never executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MAXIMUM_LENGTH = 2000
"""Longer expressions are refused: no model makes them."""
MAXIMUM_BITS = 256
"""No size needs more."""

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}


def predict(expression: str, sizes: Mapping[str, int]) -> int:
    """The size that an expression gives.

    Args:
        expression: As :meth:`~tb_plugin_structure.records.structure.Structure.symbolic_shape` returns it.
        sizes: Name -> size of each input dimension that occurs in it.

    Raises:
        ValueError: When a name has no size, or the text is no expression.
    """
    value = _value(expression, sizes)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{expression!r} gives {value}, which is no size")
        value = int(value)
    return int(value)


def holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition of a record is true for some sizes. Raises as :func:`predict` does."""
    return bool(_value(condition, sizes))


def _value(expression: str, sizes: Mapping[str, int]) -> Any:
    try:
        return _evaluate(_parsed(expression), sizes, expression)
    except (RecursionError, OverflowError) as error:
        raise ValueError(f"{expression[:80]!r} is no expression of a size") from error


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    if len(expression) > MAXIMUM_LENGTH:
        raise ValueError(f"an expression of {len(expression):,} characters is none of a size")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r} is no expression of a size") from error


def _evaluate(node: ast.expr, sizes: Mapping[str, int], whole: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            given = ", ".join(sizes) or "none"
            raise ValueError(f"{whole!r} needs a size for {node.id!r}; given: {given}")
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, sizes, whole)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, sizes, whole), _evaluate(node.right, sizes, whole)
        if isinstance(node.op, ast.Pow):
            return _power(left, right, whole)
        function = _BINARY.get(type(node.op))
        if function is not None:
            if right == 0 and function in (operator.floordiv, operator.truediv, operator.mod):
                raise ValueError(f"{whole!r} divides by zero at these sizes")
            value = function(left, right)
            if isinstance(value, int) and value.bit_length() > MAXIMUM_BITS:
                raise ValueError(f"{whole!r} is too large at these sizes")
            return value
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        compare = _COMPARE.get(type(node.ops[0]))
        if compare is not None:
            return compare(_evaluate(node.left, sizes, whole), _evaluate(node.comparators[0], sizes, whole))
    if isinstance(node, ast.BoolOp):
        every = isinstance(node.op, ast.And)
        return (all if every else any)(_evaluate(value, sizes, whole) for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluate(node.operand, sizes, whole)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and node.args:
        called = _FUNCTIONS.get(node.func.id)
        if called is not None:
            try:
                return called(*(_evaluate(argument, sizes, whole) for argument in node.args))
            except (TypeError, OverflowError) as error:
                raise ValueError(f"{whole!r} is no expression of a size: {error}") from error
    raise ValueError(f"{whole!r} is no expression of a size")


def _power(base: Any, exponent: Any, whole: str) -> Any:
    if not isinstance(exponent, int) or not 0 <= exponent <= 16:
        raise ValueError(f"{whole!r} has an exponent that is none of a size")
    value = base**exponent
    if isinstance(value, int) and value.bit_length() > MAXIMUM_BITS:
        raise ValueError(f"{whole!r} is too large at these sizes")
    return value
