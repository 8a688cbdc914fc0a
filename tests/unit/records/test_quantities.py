"""Measurement records say what their columns mean, so that no reader needs a list of names."""

from __future__ import annotations

import math

import pytest

from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.quantities import KNOWN, Quantity
from tb_plugin_structure.v1 import measurement_pb2

NAN = math.nan


def test_a_column_is_described_with_its_unit_scale_and_range() -> None:
    similarity = Quantity("cka", "similarity to the teacher", scale="linear", sum="mean", label="CKA")
    stored = Measurement.build(
        "student",
        "hash",
        ["", "first", "second", "first.weight"],
        [0, 0, 0, 1],
        {"gradient_norm": [2.0, 0.0, NAN, 5.0], "cka": [NAN, 0.5, math.inf, NAN], "forward_ns": [NAN] * 4},
        [similarity],
    ).encode()
    norm, cka, time = Measurement.decode(stored).quantities()
    assert (norm.name, norm.label, norm.unit) == ("gradient_norm", "gradient norm", "")
    assert (norm.scale, norm.sum) == (
        measurement_pb2.QUANTITY_SCALE_LOG,
        measurement_pb2.QUANTITY_SUM_SQUARES,
    )
    # The parameter's 5 is no module's value; 0 is off the logarithmic scale.
    assert (norm.minimum, norm.maximum, norm.least_positive, norm.modules) == (0.0, 2.0, 2.0, 2)
    assert (cka.label, cka.meaning, cka.minimum, cka.maximum, cka.modules) == (
        "CKA",
        "similarity to the teacher",
        0.5,
        0.5,
        2,
    )
    assert (time.unit, time.label, time.modules) == ("ns", "forward time", 0)


def test_older_records_are_described_by_the_names_of_their_columns() -> None:
    measurement = Measurement.build("m", "hash", ["a"], [0], {"gradient_norm": [1.0], "mine": [2.0]})
    del measurement.header.quantities[:]
    norm, mine = measurement.quantities()
    assert norm.scale == measurement_pb2.QUANTITY_SCALE_LOG
    assert (mine.label, mine.scale) == ("mine", measurement_pb2.QUANTITY_SCALE_LINEAR)


def test_names_of_known_quantities_are_told_apart_and_explained() -> None:
    names = [quantity.name for quantity in KNOWN]
    assert len(set(names)) == len(names)
    assert all(quantity.meaning for quantity in KNOWN)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scale": "cubic"}, "scale is 'cubic', expected one of 'linear', 'log', 'signed', 'category'"),
        ({"sum": "median"}, "sum is 'median'"),
        ({"scale": "category"}, "categories"),
        ({"categories": ("a",)}, "categories"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Quantity("x", **options)  # type: ignore[arg-type]
