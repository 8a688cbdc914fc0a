"""What a record of one pass says, on real models."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.capture import CaptureFailed, capture
from tb_plugin_structure.records.structure import Structure
from tests.unit.capture.models import TRANSFORMERS, ConvNet, tiny_transformer


def operator_names(structure: Structure, path: str) -> list[str]:
    rows = range(structure.operators.rows)
    calls = structure.operators["call"]
    return [structure.operators.text("name", row) for row in rows if structure.call_path(int(calls[row])) == path]


def test_convolutional_net_is_recorded_completely() -> None:
    structure = capture(ConvNet().eval(), (torch.randn(2, 3, 8, 8),), name="cnn")

    assert structure.module_paths == ["", "stem", "norm", "block", "head", "unused"]
    assert structure.modules["calls"].tolist() == [1, 1, 1, 1, 1, 0]
    assert structure.attributes(1)["stride"] == "(2, 2)"
    assert operator_names(structure, "") == ["relu", "+", "*", "*", "*", "mean"]
    assert operator_names(structure, "head") == ["linear"]
    assert structure.output_shapes(0) == [("features", (2, 8, 4, 4)), ("logits", (2, 4))]
    # 3x3x3 -> 8 and 3x3x8 -> 8 at 4x4 positions, 8 -> 4, two images
    assert structure.header.totals.macs == 2 * (16 * 27 * 8 + 16 * 72 * 8 + 32)
    # 224 + 16 + 584 + 36 + 30
    assert structure.header.totals.parameters == 890
    assert structure.header.inputs[0].description == "float32[2, 3, 8, 8]"


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_are_recorded_with_every_value_accounted_for(kind: str) -> None:
    model, args, kwargs = tiny_transformer(kind)
    called = []
    handles = [m.register_forward_hook(lambda module, *_: called.append(module)) for m in model.modules()]
    structure = capture(model, args, kwargs, name=kind)
    for handle in handles:
        handle.remove()

    assert structure.module_calls.rows == len(called)
    origins = structure.tensors["origin"]
    producers = structure.tensors["producer"]
    assert ((producers >= 0) == (origins == 0)).all()
    assert Structure.decode(structure.encode()).header.structure_hash == structure.header.structure_hash
    assert structure.header.totals.kernels_without_formula == 0


def test_meta_device_needs_no_weights() -> None:
    import transformers

    with torch.device("meta"):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
        ids = torch.zeros(1, 8, dtype=torch.long)
    structure = capture(model, (ids,), name="gpt2")

    assert structure.header.totals.parameters == 124_439_808
    assert structure.header.provenance.device == "meta"
    assert structure.parameters.values("sketch", 0).size == 0


def test_a_forward_that_raises_gives_what_ran_before() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = nn.Linear(9, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.second(self.first(x))
            return y

    with pytest.raises(CaptureFailed, match="mat1 and mat2") as caught:
        capture(Broken(), (torch.randn(2, 8),), name="broken")
    structure = caught.value.structure
    assert structure is not None
    assert structure.header.error.type == "RuntimeError"
    assert structure.header.error.module_path == "second"
    assert structure.header.error.kernel == "aten.addmm.default"
    assert structure.header.error.operands == ["float32[3] cpu", "float32[2, 8] cpu", "float32[9, 3] cpu"]
    assert "test_capture.py" in structure.header.error.source
    assert operator_names(structure, "first") == ["linear"]


def test_a_condition_that_reads_a_value_has_a_name() -> None:
    """`and`, `not` and `is None` name no operator: the kernel that reads the value does."""

    class Skipping(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
            if x is not None and not (mask is None or mask.all()):
                return x
            return x + 1

    structure = capture(Skipping(), (torch.ones(2), torch.tensor([True])))
    assert structure.operators.column_texts("name") == ["all", "item", "+"]


@pytest.mark.parametrize(
    ("function", "p"), [(F.dropout, 0.1), (F.dropout, 0.5), (F.dropout2d, 0.25), (F.alpha_dropout, 0.3)]
)
def test_dropout_has_the_probability_that_the_user_gave(function: Callable[..., Tensor], p: float) -> None:
    class Dropping(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x, p, True)

    assert f"dropout p={p}:" in capture(Dropping(), torch.ones(1, 2, 3, 3)).to_text()
