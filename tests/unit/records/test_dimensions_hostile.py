"""Texts in place of symbolic dimensions: an answer or a ValueError, whatever they are."""

from __future__ import annotations

import contextlib

import pytest

from tb_plugin_structure.records.dimensions import holds, predict


@pytest.mark.parametrize(
    "text",
    [
        "-" * 1_900 + "1",
        "(" * 900 + "1" + ")" * 900,
        "not " * 400 + "1",
        "1e300**9",
        "9**9**9",
        "1e400",
        "floor(1e400)",
        "round(1e400-1e400)",
        "__import__('os')",
        "H.real",
        "[1 for _ in (1,)]",
        "lambda: 1",
        "'a'*9",
        "min()",
        "",
        "\0",
        "\ud800",
        "9" * 1_900,
    ],
)
def test_what_is_no_expression_of_a_size_is_a_value_error(text: str) -> None:
    for read in (predict, holds):
        with contextlib.suppress(ValueError):
            assert isinstance(read(text, {"H": 3}), (int, bool))
