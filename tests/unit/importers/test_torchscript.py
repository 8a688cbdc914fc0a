"""Scripted and traced modules become structures, also after they were stored."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tb_plugin_structure.capture.importers import structure_of_script
from tests.unit.importers.checks import calls, check_analyses, flows, operator, stored
from tests.unit.importers.networks import CALLS, net

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
IMAGES = torch.zeros(2, 3, 8, 8)


def traced() -> torch.jit.ScriptModule:
    return torch.jit.trace(net(), (IMAGES,))


@pytest.mark.parametrize("make", [traced, lambda: torch.jit.script(net())], ids=["traced", "scripted"])
def test_every_call_of_a_module_is_a_call(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    module = make()
    torch.jit.save(module, tmp_path / "net.pt")
    for each in (module, torch.jit.load(tmp_path / "net.pt")):
        structure = stored(structure_of_script(each, "student"))
        assert calls(structure) == CALLS
        assert structure.header.model_class == "Net"
        assert structure.call_class(3) == "Conv2d"
        assert structure.header.totals.parameters == 336
        assert [name for name, _ in structure.output_shapes(0)] == ["0", "1"]
        assert flows(structure, operator(structure, "mul_"), operator(structure, "max"))
        check_analyses(structure)


def test_a_fresh_trace_knows_shapes_and_costs_a_loaded_one_does_not(tmp_path: Path) -> None:
    fresh = structure_of_script(traced())
    assert fresh.output_shapes(1) == [("", (2, 4, 8, 8))]
    torch.jit.save(traced(), tmp_path / "net.pt")
    loaded = structure_of_script(torch.jit.load(tmp_path / "net.pt"))
    assert loaded.output_shapes(1) == [("", ())]
    # Four convolutions and a product whose cost nobody can know.
    assert loaded.header.totals.macs == 0
    assert loaded.header.totals.kernels_without_formula == 5


class Branches(nn.Module):
    def forward(self, x: Tensor, times: int, more: list[Tensor]) -> tuple[Tensor, Tensor]:
        if bool(x.sum() > 0):
            y = x.sin()
        else:
            y = x.cos()
        for _ in range(times):
            y = y.tanh()
        return y, more[0].exp()


def test_both_branches_and_one_iteration_are_shown() -> None:
    structure = stored(structure_of_script(torch.jit.script(Branches())))
    assert structure.operators.column_texts("name") == ["sum", "gt", "sin", "cos", "tanh", "exp"]
    assert flows(structure, operator(structure, "sin"), operator(structure, "tanh"))
    assert flows(structure, operator(structure, "cos"), operator(structure, "tanh"))
    assert [item.name for item in structure.header.inputs] == ["x", "more"]


def test_a_constant_condition_shows_the_branch_that_is_taken() -> None:
    structure = structure_of_script(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()))
    # F.batch_norm checks sizes only in training mode; its own code is a function, shown as one operator.
    assert structure.operators.column_texts("name") == ["linear", "batch_norm"]


def test_a_module_without_a_graph_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        empty = torch.jit.script(nn.Identity())
    with pytest.raises(ValueError, match="no operator"):
        structure_of_script(empty)


def test_a_forward_with_overloads_is_read_from_the_first_of_them(tmp_path: Path) -> None:
    """``nn.LSTM`` is scripted with a forward for tensors and one for packed sequences; none is called ``forward``."""
    torch.jit.script(nn.LSTM(4, 5, 2)).save(str(tmp_path / "lstm.pt"))
    structure = structure_of_script(torch.jit.load(str(tmp_path / "lstm.pt")))
    assert structure.header.totals.parameters == 4 * 5 * (4 + 5 + 2) + 4 * 5 * (5 + 5 + 2)
    assert "lstm" in structure.operators.column_texts("name")
