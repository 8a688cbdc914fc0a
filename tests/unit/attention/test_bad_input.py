"""Inputs that nobody wants: each ends in a record that can be read, written and compared, or in a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure import AttentionOptions, StructureWriter
from tb_plugin_structure.analysis.attention import compare
from tb_plugin_structure.capture.attention import AttentionBudget, AttentionCapture
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header
from tb_plugin_structure.records.attention_details import open_head
from tb_plugin_structure.records.row_states import MASKED, NOT_FINITE, NOT_RECORDED
from tests.unit.attention.capturing import Function, captured, query_key_value

STORED: dict[str, Any] = {"example": 0, "keep_maps": False}
ATTEND = Function(F.scaled_dot_product_attention)
SOFTMAX = Function(lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v)


def through_a_record(capture: AttentionCapture) -> AttentionOverview:
    """Admitted, decoded, every stored head read in full, compared with itself."""
    overview, details = AttentionBudget().admit(0, capture)
    assert overview is not None
    decoded = AttentionOverview.decode(overview.encode())
    for blobs in details.values():
        for detail in decode_detail_header(blobs).details:
            for head in detail.heads:
                opened = open_head(detail, head, blobs.__getitem__)
                opened.pooled(slice(0, min(512, opened.queries)), slice(0, opened.keys), 8, 8)
    compare(decoded, decoded).to_dict()
    return decoded


@pytest.mark.parametrize("model", [ATTEND, SOFTMAX], ids=["kernel", "softmax"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("positions", [9, 300])
def test_nan_and_infinity(model: nn.Module, value: float, positions: int) -> None:
    q, k, v = query_key_value(batch=1, queries=positions, keys=positions)
    q[0, 1, 3] = value
    overview = through_a_record(captured(model, q, k, v, options=STORED))
    assert np.isfinite(overview.statistics["entropy"]).all()
    assert np.isfinite(overview.plane(0, 1)).all()
    assert "1 rows hold NaN or infinity" in overview.header.notes[0]
    assert overview.statistics["non_finite_rows"].tolist() == [0, 1, 0, 0]
    row = 3 if positions == 9 else 0
    assert np.flatnonzero(overview.row_states(0, 1)).tolist() == [row]
    assert overview.row_states(0, 1)[row] == NOT_FINITE
    assert not overview.row_states(0, 0).any()


@pytest.mark.parametrize("model", [ATTEND, SOFTMAX], ids=["kernel", "softmax"])
def test_everything_is_nan(model: nn.Module) -> None:
    q, k, v = query_key_value(batch=1)
    overview = through_a_record(captured(model, q * float("nan"), k, v, options=STORED))
    assert np.isnan(overview.statistics["entropy"]).all()
    assert overview.plane(0, 0).max() == 0
    assert (overview.row_states(0, 0) == NOT_FINITE).all()


def test_rows_that_see_no_key_are_marked() -> None:
    q, k, v = query_key_value(batch=1)
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[4] = False
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    overview = through_a_record(captured(model, q, k, v, options=STORED))
    assert overview.row_states(0, 2).tolist() == [0, 0, 0, 0, MASKED, 0, 0, 0, 0]


def test_a_step_without_odd_rows_stores_no_states() -> None:
    overview = captured(ATTEND, *query_key_value(batch=1), options=STORED).overview()
    assert [part.name for part in overview.header.parts] == ["statistics", "maximum", "mass"]


def test_states_of_rows_survive_coarser_planes() -> None:
    q, k, v = query_key_value(batch=1, queries=64, keys=64)
    q[0, 1, 7] = float("nan")
    coarse = captured(ATTEND, q, k, v, options=STORED).overview(cells=16)
    assert np.flatnonzero(coarse.row_states(0, 1) == NOT_FINITE).tolist() == [1]


def test_queries_that_nobody_looked_at_are_no_empty_stripes() -> None:
    q, k, v = query_key_value(batch=1, queries=128, keys=128)
    even = captured(ATTEND, q, k, v, options={**STORED, "query_rows": 32}).overview()
    assert even.plane(0, 0).shape == (32, 64)
    assert not even.row_states(0, 0).any()
    chosen = captured(ATTEND, q, k, v, options={**STORED, "query_rows": [5, 6, 100]}).overview()
    assert np.flatnonzero(chosen.row_states(0, 0) != NOT_RECORDED).tolist() == [2, 3, 50]


@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 5), (5, 0)])
def test_sequences_of_length_zero(queries: int, keys: int) -> None:
    q, k, v = query_key_value(queries=queries, keys=keys)
    overview = through_a_record(captured(ATTEND, q, k, v, options=STORED))
    for layer in overview.header.layers:
        assert layer.not_captured or (layer.query_length, layer.key_length) == (queries, keys)


def test_a_layer_that_ran_on_nothing_says_so() -> None:
    q, k, v = query_key_value(queries=0, keys=0)
    assert captured(SOFTMAX, q, k, v).not_captured == {"": "it ran on a sequence of length 0"}


def test_one_token() -> None:
    q, k, v = query_key_value(queries=1, keys=1)
    overview = through_a_record(captured(ATTEND, q, k, v, options=STORED))
    assert overview.plane(0, 0).tolist() == [[1.0]]
    assert overview.statistics["entropy"].tolist() == [0.0] * 4
    assert np.isnan(overview.statistics["normalized_entropy"]).all()  # one key is no choice


def test_131072_tokens_degrade_to_sampled_rows_in_little_memory() -> None:
    q, k, v = (torch.randn(1, 1, 131_072, 8) for _ in range(3))

    class Kernel(nn.Module):
        """The arguments of a fused kernel of that length; its own result would take minutes here."""

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            from tb_plugin_structure import log_attention

            log_attention("long", query=q, key=k, causal=True)
            return v

    capture = captured(Kernel(), q, k, v, options={**STORED, "maximum_cells": 1 << 21})
    overview = through_a_record(capture)
    (layer,) = overview.header.layers
    assert layer.exactness.endswith("; 64 of 131,072 query rows")
    assert sum(map(len, overview.encode())) < 8_000
    ((_, kept),) = capture.kept_heads()
    assert len(kept.rows) == 4


@pytest.mark.parametrize(("queries", "keys"), [(3, 11), (11, 3), (1, 400), (400, 1), (300, 7)])
def test_rectangles(queries: int, keys: int) -> None:
    q, k, v = query_key_value(queries=queries, keys=keys)
    overview = through_a_record(captured(ATTEND, q, k, v, options=STORED))
    (layer,) = overview.header.layers
    assert (layer.query_length, layer.key_length) == (queries, keys)
    np.testing.assert_allclose(overview.plane(0, 0, "mass").sum(-1), 1.0, atol=0.1)


HOSTILE = [
    "<script>alert(1)</script>",
    "\u202eevil",
    "👩‍👩‍👧",
    "\x00",
    "",
    "\ud800",
    "a" * 100_000,
    "\u0645",
    "'\"><img>",
]


def test_hostile_token_strings_survive_the_event_file(tmp_path: Path) -> None:
    q, k, v = query_key_value(batch=1)
    with (
        StructureWriter(tmp_path) as writer,
        writer.record_attention({"model": ATTEND}, step=0, tokens={"model": HOSTILE}) as region,
    ):
        ATTEND(q, k, v)
    overview = through_a_record(region.attention["model"])
    (axis,) = overview.header.axes
    assert list(axis.tokens) == [label if label != "\ud800" else "?" for label in HOSTILE]


def test_a_model_without_attention_says_so() -> None:
    overview = through_a_record(captured(nn.Linear(4, 4), torch.randn(2, 4), options=STORED))
    assert not overview.header.layers
    assert overview.header.notes[0].startswith("this model has no attention that was seen")


def test_two_models_with_nothing_in_common() -> None:
    q, k, v = query_key_value(queries=6, keys=6)
    teacher = captured(
        nn.MultiheadAttention(8, 2, batch_first=True).eval(), *(torch.randn(1, 6, 8),) * 3, options=STORED
    )
    cross = Function(F.scaled_dot_product_attention)
    student = captured(cross, q, k[:, :, :4], v[:, :, :4], options=STORED)
    result = compare(through_a_record(teacher), through_a_record(student))
    assert result.pairs == {}
    assert result.layer_pairs == []
    assert any("share no kind of attention" in note for note in result.notes)


@pytest.mark.parametrize("options", [AttentionOptions(heads=[99]), AttentionOptions(query_rows=[10_000])])
def test_choices_that_nothing_fits(options: AttentionOptions, tmp_path: Path) -> None:
    q, k, v = query_key_value(batch=1)
    with (
        StructureWriter(tmp_path) as writer,
        writer.record_attention({"model": ATTEND}, step=0, options=options) as region,
    ):
        ATTEND(q, k, v)
    through_a_record(region.attention["model"])
