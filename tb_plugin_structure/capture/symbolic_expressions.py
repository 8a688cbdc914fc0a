"""Sizes as torch keeps them (sympy) as short texts that :mod:`tb_plugin_structure.records.dimensions` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

_RELATIONS = {
    "Equality": "==",
    "Unequality": "!=",
    "StrictLessThan": "<",
    "LessThan": "<=",
    "StrictGreaterThan": ">",
    "GreaterThan": ">=",
}
_FUNCTIONS = {
    "Max": "max",
    "Min": "min",
    "CeilToInt": "ceil",
    "FloorToInt": "floor",
    "TruncToInt": "trunc",
    "RoundToInt": "round",
    "ceiling": "ceil",
    "floor": "floor",
}
_TRUE_DIVISIONS = ("IntTrueDiv", "FloatTrueDiv")
_ATOM, _PRODUCT, _SUM, _COMPARISON, _LOGIC = range(5)
"""How tightly a text holds together; what holds less tightly than its place asks for gets parentheses."""


class Unprintable(ValueError):
    """An expression has a part that the record's language of sizes does not have."""


def simplified(expression: Any) -> Any:
    """The same size, shorter. Holds for all whole numbers with positive divisors:

    - ``a//b + c`` is ``(a + b c)//b``: a convolution's ``(H - 1)//2 + 1`` becomes ``(H + 1)//2``;
    - ``(a//b + c)//d`` is ``(a + b c)//(b d)``;
    - ``(a + k b) % b`` and ``(a % b) % b`` are ``a % b``, ``-(a % b) % b`` is ``(-a) % b``;
    - ``a + (-a) % b`` is ``b ((a + b - 1)//b)``: padding up to a multiple.
    """
    if not expression.args:
        return expression
    changed = expression.func(*(simplified(argument) for argument in expression.args))
    if isinstance(changed, sympy.Add):
        return _with_constant_inside(_padded(changed))
    if isinstance(changed, (PythonMod, Mod)):
        return _reduced(changed)
    if isinstance(changed, FloorDiv):
        numerator, divisor = changed.args
        found = _sole_division(numerator)
        if found is not None and divisor.is_Integer and divisor > 0:
            coefficient, inner, constant = found
            if coefficient == 1:
                a, b = inner.args
                return FloorDiv(a + b * constant, b * divisor)
    return changed


def _reduced(expression: Any) -> Any:
    a, b = expression.args
    if not (b.is_Integer and b > 0):
        return expression
    constant, rest = a.as_coeff_Add()
    if constant.is_Integer and constant != 0:
        a = rest + constant % b
    for sign in (1, -1):
        inner = sign * a
        if isinstance(inner, (PythonMod, Mod)) and inner.args[1] == b:
            a = sign * inner.args[0]
    return PythonMod(a, b)


def _sole_division(expression: Any) -> tuple[Any, Any, Any] | None:
    """(k, a//b, c) when the expression is ``k (a//b) + c`` with whole numbers k, b > 0 and c."""
    constant, rest = expression.as_coeff_Add()
    coefficient, inner = rest.as_coeff_Mul()
    if isinstance(inner, FloorDiv) and constant.is_Integer and coefficient.is_Integer:
        divisor = inner.args[1]
        if divisor.is_Integer and divisor > 0:
            return coefficient, inner, constant
    return None


def _with_constant_inside(expression: Any) -> Any:
    found = _sole_division(expression)
    if found is None:
        return expression
    coefficient, inner, constant = found
    if constant == 0 or constant % coefficient != 0:
        return expression
    a, b = inner.args
    return coefficient * FloorDiv(a + b * (constant // coefficient), b)


def _padded(expression: Any) -> Any:
    for term in expression.args:
        if isinstance(term, (PythonMod, Mod)):
            a, b = term.args
            rest = expression - term
            if b.is_Integer and b > 0:
                # rest is -a + c for some whole number c
                constant = sympy.expand(rest + a)
                if constant.is_Integer:
                    return b * FloorDiv(-a + b - 1, b) + constant
    return expression


def text_of(expression: Any, names: Mapping[Any, str]) -> str:
    """An expression in the language of the record.

    Args:
        expression: A sympy expression, or an int.
        names: Symbol -> its name; the order of names is that of factors and terms.

    Raises:
        Unprintable: When a symbol has no name, or a function has no counterpart.
    """
    if isinstance(expression, int):
        return str(expression)
    order = {symbol: position for position, symbol in enumerate(names)}
    return _text(expression, names, order)[0]


def _text(e: Any, names: Mapping[Any, str], order: Mapping[Any, int]) -> tuple[str, int]:
    def inner(part: Any, most: int) -> str:
        text, level = _text(part, names, order)
        return f"({text})" if level > most else text

    if isinstance(e, sympy.Symbol):
        if e not in names:
            raise Unprintable(f"{e} has no name")
        return names[e], _ATOM
    if e.is_Integer:
        return str(int(e)), _ATOM if e >= 0 else _SUM
    if e.is_Rational:
        return f"{int(e.p)}/{int(e.q)}", _SUM
    if e.is_Float:
        return repr(float(e)), _ATOM if e >= 0 else _SUM
    if e in (sympy.true, sympy.false):
        return ("1 == 1" if e == sympy.true else "0 == 1"), _COMPARISON
    kind = type(e).__name__
    if isinstance(e, sympy.Add):
        terms = sorted(e.args, key=lambda term: _rank(term, order))
        text = ""
        for term in terms:
            negative = term.could_extract_minus_sign()
            sign = "-" if negative else "+" if text else ""
            # A leading minus binds tighter than // and %: -(H//2) is not -H//2.
            text += sign + inner(-term if negative else term, _PRODUCT if text or not negative else _ATOM)
        return text, _SUM
    if isinstance(e, sympy.Mul):
        coefficient, rest = e.as_coeff_Mul()
        factors = sorted(sympy.Mul.make_args(rest), key=lambda factor: _rank(factor, order))
        parts = [] if coefficient == 1 else [inner(coefficient, _ATOM)]
        if coefficient == -1:
            return "-" + "*".join(inner(factor, _ATOM) for factor in factors), _SUM
        return "*".join([*parts, *(inner(factor, _ATOM) for factor in factors)]), _PRODUCT
    if kind in ("FloorDiv", "CleanDiv"):
        return f"{inner(e.args[0], _ATOM)}//{inner(e.args[1], _ATOM)}", _PRODUCT
    if kind in ("Mod", "PythonMod"):
        return f"{inner(e.args[0], _ATOM)}%{inner(e.args[1], _ATOM)}", _PRODUCT
    if kind in _TRUE_DIVISIONS:
        return f"{inner(e.args[0], _ATOM)}/{inner(e.args[1], _ATOM)}", _PRODUCT
    if kind in ("Pow", "PowByNatural") and e.args[1].is_Integer and e.args[1] > 0:
        return f"{inner(e.args[0], _ATOM)}**{int(e.args[1])}", _PRODUCT
    if kind in ("ToFloat", "Identity"):
        return _text(e.args[0], names, order)
    if kind in _FUNCTIONS:
        parts = [_text(part, names, order)[0] for part in sorted(e.args, key=lambda part: _rank(part, order))]
        return f"{_FUNCTIONS[kind]}({', '.join(parts)})", _ATOM
    if kind in _RELATIONS:
        return f"{inner(e.args[0], _SUM)} {_RELATIONS[kind]} {inner(e.args[1], _SUM)}", _COMPARISON
    if kind in ("And", "Or"):
        parts = sorted(inner(part, _COMPARISON) for part in e.args)
        return f" {kind.lower()} ".join(parts), _LOGIC
    if kind == "Not":
        return f"not ({_text(e.args[0], names, order)[0]})", _LOGIC
    raise Unprintable(f"{kind} has no counterpart among sizes")


def _rank(part: Any, order: Mapping[Any, int]) -> tuple[int, int, str]:
    """Names in their order, numbers last."""
    positions = [order.get(symbol, len(order)) for symbol in part.free_symbols]
    return min(positions, default=len(order) + 1), -len(positions), str(part)
