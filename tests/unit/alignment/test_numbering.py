"""Numbers in the place of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin_structure.analysis.alignment.numbering import first_rows, ranked


@given(st.lists(st.integers(-50, 50) | st.integers(-(2**62), 2**62), max_size=60))
def test_ranks_are_those_of_sorting(values: list[int]) -> None:
    array = np.array(values, np.int64)
    distinct, place = ranked(array)
    assert distinct.tolist() == sorted(set(values))
    assert distinct[place].tolist() == values


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint32])
def test_ranks_of_narrow_columns(kind: type) -> None:
    distinct, place = ranked(np.array([200, 3, 200, 7], kind))
    assert distinct.tolist() == [3, 7, 200]
    assert place.tolist() == [2, 0, 2, 1]


def test_first_rows() -> None:
    assert first_rows(np.array([1, 0, 1, 2, 0])).tolist() == [1, 0, 3]
    assert first_rows(np.zeros(0, np.int64)).tolist() == []
