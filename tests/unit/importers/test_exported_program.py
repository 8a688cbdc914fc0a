"""An ExportedProgram becomes a structure: calls, shapes, costs, sources, and edges through memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from tb_plugin_structure.capture import capture
from tb_plugin_structure.capture.importers import structure_of_program
from tests.unit.importers.checks import calls, check_analyses, flows, operator, stored
from tests.unit.importers.networks import CALLS, net

IMAGES = torch.zeros(2, 3, 8, 8)


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(net(), (IMAGES,), dynamic_shapes={"x": {0: Dim("batch")}})


def test_every_call_of_a_module_is_a_call(program: torch.export.ExportedProgram) -> None:
    structure = stored(structure_of_program(program, "student"))
    assert calls(structure) == CALLS
    assert structure.header.model_class == "Net"
    assert structure.call_class(3) == "Conv2d"
    assert structure.modules["calls"][structure.module_row["norm"]] == 3
    assert structure.modules["calls"][structure.module_row["unused"]] == 0
    check_analyses(structure)


def test_shapes_costs_and_parameters(program: torch.export.ExportedProgram) -> None:
    structure = stored(structure_of_program(program))
    assert structure.output_shapes(0) == [("0", (2, 2)), ("1", (2,))]
    assert structure.output_shapes(1) == [("", (2, 4, 8, 8))]
    # 1x1x3 -> 4 once, 3x3x4 -> 4 three times, at 8x8 positions; 4 -> 2; two images.
    assert structure.header.totals.macs == 2 * (64 * 12 + 3 * 64 * 144 + 8)
    # stem 16, two blocks of 148, norm 8, head 10, unused 6.
    assert structure.header.totals.parameters == 336
    assert structure.header.totals.kernels_without_formula == 0
    (described,) = structure.header.inputs
    assert (described.name, described.description.endswith(", 3, 8, 8]")) == ("x", True)
    assert not described.description.startswith("float32[2,")  # the batch is a symbol


def test_a_write_through_a_view_reaches_later_readers(program: torch.export.ExportedProgram) -> None:
    structure = stored(structure_of_program(program))
    write, after = operator(structure, "mul_"), operator(structure, "max")
    assert flows(structure, write, after)
    # `flatten` is a view of what the last norm returned: the mean that follows sees the write as well.
    assert flows(structure, write, operator(structure, "mean"))


def test_sources_are_relative_and_can_be_left_out(program: torch.export.ExportedProgram) -> None:
    sources = structure_of_program(program).operators.column_texts("source")
    assert all("networks.py:" in source and not source.startswith("/") for source in sources)
    assert set(structure_of_program(program, source="none").operators.column_texts("source")) == {""}


def test_a_stored_program_reads_as_the_one_in_memory(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = structure_of_program(torch.export.load(tmp_path / "net.pt2"))
    original = structure_of_program(program)
    assert calls(loaded) == calls(original)
    assert loaded.operators.column_texts("name") == original.operators.column_texts("name")
    assert loaded.operator_edges.tolist() == original.operator_edges.tolist()


def test_capture_and_the_writer_take_a_program(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    from tb_plugin_structure.cli.event_files import EventFiles
    from tb_plugin_structure.writer import StructureWriter

    assert calls(capture(program, name="student")) == CALLS
    with StructureWriter(tmp_path) as writer:
        writer.add_structure("student", program)
    assert calls(EventFiles.read(tmp_path).find("student")[1]) == CALLS
    with pytest.raises(TypeError, match=r"program\.module\(\)"):
        capture(program, backward=True)


def test_its_weights_are_recognised_in_the_recorded_model(program: torch.export.ExportedProgram) -> None:
    recorded = capture(net(), (IMAGES,))
    imported = structure_of_program(program)
    sketches = {path: recorded.parameters.values("sketch", row) for row, path in enumerate(paths(recorded))}
    for row, path in enumerate(paths(imported)):
        np.testing.assert_array_equal(imported.parameters.values("sketch", row), sketches[path])


def paths(structure):  # type: ignore[no-untyped-def]
    return structure.parameters.column_texts("path")


class Modes(nn.Module):
    """A part without gradients, which the export puts into a graph of its own, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 9, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            hidden = self.norm(self.embedding(ids))
        values, where = torch.topk(hidden, 2)
        return {"logits": self.out(hidden * scale), "top": values + where}


def test_parts_under_no_grad_and_tied_weights() -> None:
    program = torch.export.export(Modes(), (torch.zeros(1, 3, dtype=torch.long),))
    structure = stored(structure_of_program(program))
    assert [path for path, _ in calls(structure)] == ["", "embedding", "norm", "out"]
    assert structure.header.totals.parameters == 9 * 4 + 8
    assert dict(structure.output_shapes(0)) == {"logits": (1, 3, 9), "top": (1, 3, 2)}
    norm, topk = operator(structure, "layer_norm"), operator(structure, "topk")
    assert flows(structure, norm, topk)
    assert flows(structure, topk, operator(structure, "+"))
    assert flows(structure, operator(structure, "embedding"), norm)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,)) * 2


def test_a_condition_is_one_operator() -> None:
    structure = stored(structure_of_program(torch.export.export(Branches(), (torch.ones(3),))))
    assert structure.operators.column_texts("name") == ["sum", "gt", "cond", "*"]
    assert flows(structure, 1, 2)
    assert flows(structure, 2, 3)
