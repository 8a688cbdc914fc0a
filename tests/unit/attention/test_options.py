"""Choices are checked when they are made, and mean what they say."""

from __future__ import annotations

import pytest

from tb_plugin_structure.capture import AttentionOptions


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"example": "first"}, "example is 'first'"),
        ({"query_rows": "some"}, "query_rows is 'some'"),
        ({"query_rows": 0}, "expected at least 1"),
        ({"grid": (4, 0)}, r"grid is \(4, 0\)"),
        ({"tokens": "one string"}, "expected a list of strings"),
        ({"detail_limit": -1}, "must not be negative"),
    ],
)
def test_wrong_choices_are_named(choice: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionOptions(**choice)  # type: ignore[arg-type]


def test_examples() -> None:
    assert AttentionOptions().examples(4) == [0]
    assert AttentionOptions(example=-1).examples(4) == [3]
    assert AttentionOptions(example=[0, 2, 9]).examples(4) == [0, 2]
    assert AttentionOptions(example="all").examples(3) == [0, 1, 2]


def test_heads_by_module_pattern() -> None:
    options = AttentionOptions(heads={"encoder.*": [0, 3, 99]})
    assert options.heads_of("encoder.layer.0", 4) == [0, 3]
    assert options.heads_of("decoder.layer.0", 4) == [0, 1, 2, 3]


def test_rows() -> None:
    assert AttentionOptions().rows_of(12, 512, 512) is None
    assert AttentionOptions(query_rows=4).rows_of(12, 8, 8) == [1, 3, 5, 7]
    assert AttentionOptions(query_rows=[-1, 0]).rows_of(12, 8, 8) == [0, 7]
    assert AttentionOptions(query_rows="all").rows_of(32, 131_072, 131_072) is None
    sampled = AttentionOptions().rows_of(32, 131_072, 131_072)
    assert sampled is not None
    assert len(sampled) == 64
    assert (sampled[0], sampled[-1]) == (1024, 130_048)
