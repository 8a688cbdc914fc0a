"""Structures without weights: fake tensors and the meta device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tb_plugin_structure.capture import CaptureFailed, capture
from tests.unit.capture.models import ConvNet, tiny_transformer


def kernels(model: nn.Module, args: tuple[Tensor, ...], fake: bool) -> list[str]:
    names = capture(model, args, fake=fake).kernels.column_texts("name")
    return [name for name in names if "detach" not in name]


@pytest.mark.parametrize("kind", ["vit", "gpt2"])
def test_fake_tensors_show_the_kernels_of_the_real_pass(kind: str) -> None:
    model, args, kwargs = tiny_transformer(kind)
    model.requires_grad_(False)
    assert not kwargs
    assert kernels(model, args, True) == kernels(model, args, False)


def test_fake_pass_leaves_the_model_its_own_tensors() -> None:
    model = ConvNet().train()
    before = {name: (id(tensor), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    structure = capture(model, (torch.randn(2, 3, 8, 8),), fake=True)
    after = model.state_dict(keep_vars=True)
    assert all(id(after[name]) == key and torch.equal(after[name], value) for name, (key, value) in before.items())
    assert structure.output_shapes(0) == [("features", (2, 8, 4, 4)), ("logits", (2, 4))]
    assert structure.header.totals.macs == 2 * (16 * 27 * 8 + 16 * 72 * 8 + 32)
    assert "fake" in structure.header.notes[0]
    assert structure.tensors["parameter"].max() >= 7


def test_reading_a_value_under_fake_tensors_names_the_line() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.a(x)
            if y.sum() > 0:
                return y
            return x

    with pytest.raises(CaptureFailed, match=r"test_weightless\.py:\d+.*leave out fake=True") as caught:
        capture(Branching(), (torch.randn(2, 4),), name="student", fake=True)
    assert caught.value.structure is not None
    assert caught.value.structure.header.totals.kernels > 0


@pytest.mark.slow
def test_seventy_billion_parameters_on_the_meta_device() -> None:
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
        ids = torch.zeros(1, 16, dtype=torch.long)
    structure = capture(model, (ids,), name="llama")
    assert structure.header.totals.parameters == 70_553_706_496
    assert structure.modules["calls"].max() == 1
