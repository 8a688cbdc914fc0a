"""How much attention a run writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tb_plugin_structure.capture.attention import AttentionBudget, AttentionCapture
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


def test_full_matrices_that_do_not_fit_are_named(capture: AttentionCapture) -> None:
    budget = AttentionBudget(snapshot_bytes=size(capture.overview().encode()) + 100)
    overview, details = budget.admit(0, capture)
    assert details == {}
    assert overview is not None
    assert "full matrices of 1 modules were not written" in overview.header.notes[0]


def test_an_overview_that_does_not_fit_is_not_written(capture: AttentionCapture) -> None:
    assert AttentionBudget(snapshot_bytes=100).admit(0, capture) == (None, {})


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
