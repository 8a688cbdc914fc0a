"""How much attention a run writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tb_plugin_structure.capture.attention import AttentionBudget, AttentionCapture
from tb_plugin_structure.records.attention import decode_detail_header
from tests.unit.attention.capturing import Function, captured, query_key_value


@pytest.fixture(scope="module")
def capture() -> AttentionCapture:
    q, k, v = query_key_value(queries=40, keys=40)
    options: dict[str, Any] = {"example": 0, "keep_maps": False}
    return captured(Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), q, k, v, options=options)


def size(blobs: list[bytes]) -> int:
    return sum(map(len, blobs))


def snapshot_bytes(capture: AttentionCapture) -> int:
    return size(capture.overview().encode()) + sum(size(blobs) for blobs in capture.details().values())


def test_everything_fits(capture: AttentionCapture) -> None:
    budget = AttentionBudget()
    overview, details = budget.admit(0, capture)
    assert overview is not None
    assert list(overview.header.notes) == []
    assert list(details) == [""]
    assert budget.used_bytes == snapshot_bytes(capture)


def test_heads_that_do_not_fit_are_counted_and_their_layers_named(capture: AttentionCapture) -> None:
    budget = AttentionBudget(snapshot_bytes=size(capture.overview().encode()) + 100)
    overview, details = budget.admit(0, capture)
    assert details == {}
    assert overview is not None
    assert "full resolution of 4 of 4 heads was not written" in overview.header.notes[0]
    assert "the model" in overview.header.notes[0]


def test_an_overview_that_does_not_fit_is_not_written(capture: AttentionCapture) -> None:
    assert AttentionBudget(snapshot_bytes=100).admit(0, capture) == (None, {})


def large_capture(layers: int = 2) -> AttentionCapture:
    """`layers` attentions of 4 heads over 100 positions, each in a module of its own."""
    q, k, v = query_key_value(queries=100, keys=100)
    attend = {f"layer{number}": Function(F.scaled_dot_product_attention) for number in range(layers)}
    model = Function(lambda q, k, v: [attention(q, k, v) for attention in attend.values()], **attend)
    return captured(model, q, k, v, options={"example": 0, "keep_maps": False})


def test_every_layer_gets_its_first_head_before_any_gets_a_second() -> None:
    capture = large_capture()
    one_head = max(len(kept.blob) for _, kept in capture.kept_heads()) + 300
    budget = AttentionBudget(snapshot_bytes=size(capture.overview().encode()) + 3 * one_head)
    overview, details = budget.admit(0, capture)
    assert overview is not None
    heads = {
        path: [list(detail.heads) for detail in decode_detail_header(blobs).details] for path, blobs in details.items()
    }
    assert heads == {"layer0": [[0, 1]], "layer1": [[0]]}
    assert "full resolution of 5 of 8 heads was not written" in overview.header.notes[0]


def test_overviews_become_coarser_where_they_do_not_fit() -> None:
    capture = large_capture()
    budget = AttentionBudget(snapshot_bytes=size(capture.overview().encode()) // 2)
    overview, _ = budget.admit(0, capture)
    assert overview is not None
    assert [(layer.overview_rows, layer.overview_columns) for layer in overview.header.layers] == [(32, 32)] * 2
    assert "32 x 32 cells instead of 64 x 64" in overview.header.notes[0]
    fine = capture.overview()
    expected = fine.plane(0, 1).reshape(32, 2, 32, 2).max((1, 3))
    np.testing.assert_allclose(overview.plane(0, 1), expected, atol=2 * expected.max() / 255)
    np.testing.assert_allclose(overview.plane(0, 1, "mass").sum(-1), 1.0, atol=0.05)


def test_a_pinned_step_is_written_when_nothing_is_left(capture: AttentionCapture) -> None:
    budget = AttentionBudget(run_bytes=100, pinned=[7])
    assert not [step for step in range(7) if budget.wants(step) and budget.admit(step, capture)[0] is not None]
    assert budget.wants(7)
    overview, details = budget.admit(7, capture)
    assert overview is not None
    assert overview.header.layers[0].overview_rows == 5  # 40 positions, halved three times
    assert details == {}
    assert "recorded steps before this one have no attention" in overview.header.notes[-1]


def run(budget: AttentionBudget, capture: AttentionCapture, steps: int) -> list[int]:
    written = []
    for step in range(steps):
        if budget.wants(step):
            overview, _ = budget.admit(step, capture)
            if overview is not None:
                written.append(step)
    return written


def test_the_interval_doubles_and_the_last_fifth_stays_free(capture: AttentionCapture) -> None:
    each = snapshot_bytes(capture)
    budget = AttentionBudget(run_bytes=50 * each)
    written = run(budget, capture, 1000)
    gaps = [after - before for before, after in pairwise(written)]
    assert gaps == sorted(gaps)
    assert gaps[:3] == [1, 1, 1]  # the first twelfth of the 40 common snapshots
    assert set(gaps) <= {1, 2, 4, 8, 16, 32, 64, 128, 256}
    assert written[-1] > 800  # a run of unknown length is covered to its end
    assert budget.used_bytes <= 40 * each * 1.02


def test_pinned_steps_may_use_the_reserve(capture: AttentionCapture) -> None:
    each = snapshot_bytes(capture)
    budget = AttentionBudget(run_bytes=10 * each, pinned=[500])
    written = run(budget, capture, 501)
    assert written[-1] == 500
    assert budget.used_bytes <= 10 * each * 1.02


def test_what_was_skipped_is_said_with_the_next_snapshot(capture: AttentionCapture) -> None:
    budget = AttentionBudget(run_bytes=10 * snapshot_bytes(capture))
    notes: list[str] = []
    for step in range(40):
        if budget.wants(step):
            overview, _ = budget.admit(step, capture)
            notes += [] if overview is None else list(overview.header.notes)
    assert any("recorded steps before this one have no attention" in note for note in notes)


def test_negative_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        AttentionBudget(run_bytes=-1)


def test_several_models_of_one_step_share_the_decision(capture: AttentionCapture) -> None:
    budget = AttentionBudget()
    assert [budget.wants(step) for step in (0, 0, 1, 1)] == [True] * 4


def test_budget_holds_for_a_large_model() -> None:
    q, k, v = (torch.randn(1, 64, 256, 4) for _ in range(3))
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    got = captured(model, q, k, v, options={"example": 0, "keep_maps": False})
    budget = AttentionBudget(snapshot_bytes=1 << 20)
    overview, details = budget.admit(0, got)
    assert overview is not None
    assert size(overview.encode()) + sum(map(size, details.values())) <= (1 << 20) + 1000


def test_further_examples_have_overviews_of_their_own() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    got = captured(model, q, k, v, options={"example": [0, 1], "keep_maps": False})
    budget = AttentionBudget()
    first, details = budget.admit(0, got, 0)
    second, nothing = budget.admit(0, got, 1)
    assert first is not None
    assert second is not None
    assert (first.header.example, second.header.example) == ("0", "1")
    assert (list(details), nothing) == ([""], {})
