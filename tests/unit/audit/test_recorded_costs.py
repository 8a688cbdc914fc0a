"""Times, peaks, what autograd keeps and symbolic dimensions are shown where a record holds them, and said to be missing
where it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.structure import Structure

from .faulty_models import IMAGE, Small, frozen
from .pairing import pair_by_path


def measured(model: Small, name: str, factor: float) -> Structure:
    """A record as an exact stopwatch would make it: every operator takes `factor` µs and keeps 10 bytes; a call takes
    as long as its operators, and holds 100 bytes at most."""
    structure = capture(model, (IMAGE,), name=name)
    operators, calls = structure.operators.rows, structure.module_calls
    spans = calls["operator_end"].astype(int) - calls["operator_begin"].astype(int)
    structure.set_columns(
        "operators", {"duration_ns": [1000.0 * factor] * operators, "saved_bytes": [10.0] * operators}
    )
    structure.set_columns("module_calls", {"duration_ns": 1000.0 * factor * spans, "peak_bytes": [100.0] * calls.rows})
    totals = structure.header.totals
    totals.duration_ns, totals.saved_bytes, totals.peak_bytes = round(1000 * factor * operators), 10 * operators, 100
    return structure


@pytest.fixture(scope="module")
def report() -> AuditReport:
    torch.manual_seed(0)
    teacher, student = measured(frozen(Small(16)), "teacher", 4.0), measured(Small(8).eval(), "student", 1.0)
    return audit(pair_by_path(teacher, student))


def test_rows_carry_times_and_memory(report: AuditReport) -> None:
    row = report.row("conv")
    assert (row.teacher_cost.duration_ns, row.student_cost.duration_ns) == (4000.0, 1000.0)
    assert (row.teacher_cost.saved_bytes, row.teacher_cost.peak_bytes) == (10.0, 100.0)
    columns = report.columns()
    place = columns["student_path"].index("conv")
    assert columns["student_duration_ns"][place] == 1000.0


def test_stages_add_up_times_and_take_the_largest_peak(report: AuditReport) -> None:
    stage = next(stage for stage in report.stages if stage.stage == "conv")
    assert (stage.teacher_cost.duration_ns, stage.student_cost.duration_ns, stage.teacher_cost.peak_bytes) == (
        4000.0,
        1000.0,
        100.0,
    )


def test_texts_show_the_ratio(report: AuditReport) -> None:
    text = report.to_markdown()
    assert "| time T | time S | S/T |" in text
    assert "| 4 µs | 1 µs | 0.25× |" in text
    assert "Not recorded" not in text
    assert json.loads(report.to_json())["stages"][0]["student_duration_ns"] == 1000


def test_training_memory_counts_what_autograd_keeps_and_the_teachers_peak(report: AuditReport) -> None:
    """Small(8): 285 parameters of 4 bytes; buffers of a batch norm: 2 x 8 floats and a counter of 8 bytes."""
    memory = report.memory()
    operators = report.student.structure.operators.rows
    assert memory.student_weights == 4 * 285 + 4 * 16 + 8
    assert memory.student_gradients == 4 * 285
    assert memory.optimizer_states == 8 * 285
    assert (memory.student_activations, memory.activations_measured) == (10 * operators, True)
    assert memory.teacher_peak == 100
    assert memory.total == sum(memory[:6])
    assert report.to_proto().training_memory.total == memory.total


def test_what_is_missing_is_said() -> None:
    pair = [capture(frozen(Small()), (IMAGE,), name=name) for name in ("teacher", "student")]
    text = audit(pair_by_path(*pair)).to_markdown()
    assert "Not recorded: times, what autograd keeps, peaks (capture with time=True, memory=True)." in text
    assert "time T" not in text


def test_what_capture_measures_arrives() -> None:
    options: dict[str, Any] = {"time": 1, "memory": True, "symbolic": True}
    student = capture(Small(8).eval(), (IMAGE,), name="student", **options)
    teacher = capture(frozen(Small(8)), (IMAGE,), name="teacher", **options)  # keeps nothing for a backward pass
    report = audit(pair_by_path(teacher, student))
    row = report.row("conv")
    assert row.student_cost.duration_ns > 0
    # The convolution's output, 2 x 8 x 8 x 8 floats, is the only storage that it makes.
    assert row.student_cost.peak_bytes >= 2 * 8 * 8 * 8 * 4
    assert row.student is not None
    assert row.student.symbols == ("B", "8", "H", "W")
    assert report.memory().activations_measured
    assert "Not recorded" not in report.to_markdown()


def test_symbolic_dimensions_are_shown() -> None:
    structure = capture(frozen(Small()), (IMAGE,), name="model")
    shapes = structure.tensors.column_lists("shape")
    symbols = [["B", *map(str, shape[1:])] if shape[:1] == [2] else list(map(str, shape)) for shape in shapes]
    structure.set_columns("tensors", {"symbolic": symbols})
    columns = audit(pair_by_path(structure, structure)).columns()
    assert columns["teacher_symbols"][columns["teacher_path"].index("conv")] == ("B", "8", "8", "8")
