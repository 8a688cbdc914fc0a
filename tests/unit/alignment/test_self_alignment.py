"""A model compared with itself: every call is paired with itself, whatever the model is built of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tb_plugin_structure import align, capture
from tb_plugin_structure.v1 import alignment_pb2
from tests.support.tiny_transformers import FAMILIES, tiny_model

Made = tuple[nn.Module, dict[str, Any]]


def _image_model(family: str, side: int, **settings: Any) -> Made:
    import transformers

    config = transformers.AutoConfig.for_model(family, **settings)
    return transformers.AutoModel.from_config(config).eval(), {"pixel_values": torch.randn(1, 3, side, side)}


def _segformer() -> Made:
    widths = {"hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 3, 4]}
    return _image_model("segformer", 64, depths=[2, 2, 2, 2], **widths)


def _segformer_head() -> Made:
    import transformers

    config = transformers.SegformerConfig(
        depths=[1, 2, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16
    )
    model = transformers.SegformerForSemanticSegmentation(config).train()
    return model, {"pixel_values": torch.randn(2, 3, 64, 64)}


def _swin() -> Made:
    return _image_model(
        "swin", 32, image_size=32, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[2, 2], window_size=4
    )


def _mobilevit() -> Made:
    widths = {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 24, 32, 32, 32]}
    return _image_model("mobilevit", 64, image_size=64, num_attention_heads=2, **widths)


def _whisper() -> Made:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, max_source_positions=20,
        max_target_positions=20, num_mel_bins=8, pad_token_id=1, bos_token_id=1, eos_token_id=1,
        decoder_start_token_id=1,
    )  # fmt: skip
    tokens = torch.ones(1, 4, dtype=torch.long)
    return transformers.WhisperModel(config).eval(), {
        "input_features": torch.randn(1, 8, 40),
        "decoder_input_ids": tokens,
    }


def _clip() -> Made:
    import transformers

    tower = {"hidden_size": 32, "intermediate_size": 37, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = transformers.CLIPConfig(
        text_config={**tower, "vocab_size": 99, "max_position_embeddings": 20, "eos_token_id": 2},
        vision_config={**tower, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    inputs = {"input_ids": torch.randint(3, 90, (1, 6)), "pixel_values": torch.randn(1, 3, 32, 32)}
    return transformers.CLIPModel(config).eval(), inputs


def _double_convolution(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU())


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_double_convolution(3, 8), _double_convolution(8, 16), _double_convolution(16, 32)])
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([_double_convolution(32, 16), _double_convolution(16, 8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](self.pool(first))
        x = self.down[2](self.pool(second))
        for up, join, kept in zip(self.up, self.join, (second, first), strict=True):
            x = join(torch.cat([up(x), kept], 1))
        return x


class _Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score: torch.Tensor = self.head(torch.cat([self.encoder(x), self.encoder(2 * x)], -1))
        return score


class _Shared(nn.Module):
    """One block that runs four times, and one activation and norm after each of three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.act, self.norm = nn.ReLU(), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = self.block(x)
        for layer in self.layers:
            x = self.norm(self.act(layer(x)))
        return x


class _Weightless(nn.Module):
    """Blocks, and between them and inside them composites that hold no weights."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for _ in range(3):
            inner = nn.Sequential(nn.Sequential(nn.Identity()), nn.Linear(8, 8), nn.Sequential(nn.Dropout(), nn.ReLU()))
            blocks += [nn.Sequential(inner, nn.Linear(8, 8)), nn.Sequential(nn.Identity(), nn.Dropout())]
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class _Nothing(nn.Module):
    """A composite whose parts run no operator and hold nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.ModuleList([nn.Sequential(nn.Sequential(nn.Identity()), nn.Identity()) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.outer:
            x = part(x)
        return x + 1


def _hand_written(made: type[nn.Module], *shape: int) -> Callable[[], Made]:
    return lambda: (made().eval(), {"x": torch.randn(*shape)})


_MODELS: dict[str, Callable[[], Made]] = {
    "segformer": _segformer,
    "segformer with its head": _segformer_head,
    "swin": _swin,
    "mobilevit": _mobilevit,
    "whisper": _whisper,
    "clip": _clip,
    "u-net": _hand_written(_UNet, 1, 3, 16, 16),
    "siamese": _hand_written(_Siamese, 2, 8),
    "shared layers": _hand_written(_Shared, 1, 4, 8),
    "weightless composites": _hand_written(_Weightless, 2, 8),
    "nothing but identities": _hand_written(_Nothing, 2, 8),
}


def _assert_identity(model: nn.Module, inputs: dict[str, Any]) -> None:
    structure = capture(model, (), inputs)
    alignment = align(teacher=structure, student=structure)
    assert [row.student for row in alignment.rows if row.student != row.teacher] == []
    assert sorted(row.teacher for row in alignment.rows) == list(range(structure.module_calls.rows))
    assert {row.kind for row in alignment.rows} == {alignment_pb2.PAIR_KIND_IDENTICAL}
    assert alignment.edits == []


# Two tiny layers of 32 channels cannot be split into this family's four groups.
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "squeezebert"])
def test_families_of_transformers(family: str) -> None:
    pytest.importorskip("transformers")
    _assert_identity(*tiny_model(family))


@pytest.mark.parametrize("name", _MODELS)
def test_other_architectures(name: str) -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    _assert_identity(*_MODELS[name]())


@pytest.mark.parametrize("name", ["segformer", "u-net", "shared layers", "weightless composites"])
def test_two_initialisations_of_one_model_are_paired_place_by_place(name: str) -> None:
    pytest.importorskip("transformers")
    records = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model, inputs = _MODELS[name]()
        records.append(capture(model, (), inputs))
    assert all(row.teacher == row.student for row in align(teacher=records[0], student=records[1]).rows)
