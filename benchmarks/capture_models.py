"""Models for `capture.py`: tiny ones of many families, where what recording costs shows most, and three of real size.

Nothing is downloaded: weights are random, configurations are transformers' own with small sizes. Families that the
installed transformers lacks are left out, torchvision and timm are used where they are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model, positional inputs, keyword inputs."""

_TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 2}
_LLAMA = {**_TEXT, "num_key_value_heads": 2, "vocab_size": 500}
_VISION = {**_TEXT, "image_size": 32, "patch_size": 8}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}

TEXT: dict[str, dict[str, Any]] = {
    "Bert": _TEXT,
    "Roberta": _TEXT,
    "Electra": {**_TEXT, "embedding_size": 32},
    "Albert": {**_TEXT, "embedding_size": 32},
    "MPNet": _TEXT,
    "DebertaV2": _TEXT,
    "RoFormer": {**_TEXT, "embedding_size": 32},
    "ConvBert": {**_TEXT, "embedding_size": 32},
    "MobileBert": {**_TEXT, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "FNet": {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64},
    "XLM": {"emb_dim": 32, "n_layers": 2, "n_heads": 2},
    "GPT2": _GPT,
    "GPTNeoX": _TEXT,
    "GPTJ": {**_GPT, "rotary_dim": 8},
    "CodeGen": {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8},
    "OPT": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "ffn_dim": 64,
        "word_embed_proj_dim": 32,
    },
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 2},
    "Falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "Llama": _LLAMA,
    "Mistral": _LLAMA,
    "Qwen2": _LLAMA,
    "Gemma": {**_LLAMA, "head_dim": 16},
    "Phi": _LLAMA,
    "StableLm": _LLAMA,
    "Cohere": _LLAMA,
    "Olmo": _LLAMA,
    "Mixtral": {**_LLAMA, "num_local_experts": 4},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 500},
}
"""Family of transformers -> sizes; the model reads one sequence of tokens."""

IMAGES: dict[str, dict[str, Any]] = {
    "ViT": _VISION,
    "DeiT": _VISION,
    "Beit": _VISION,
    "Dinov2": _VISION,
    "ViTMAE": _VISION,
    "ViTMSN": _VISION,
    "Yolos": {**_VISION, "image_size": [32, 32], "num_detection_tokens": 4},
    "ConvNext": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]},
    "ConvNextV2": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]},
    "ResNet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "RegNet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
    "PoolFormer": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]},
    "MobileNetV1": {"depth_multiplier": 0.25},
    "MobileNetV2": {"depth_multiplier": 0.25},
    "EfficientNet": {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
    "Swin": {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    },
    "Segformer": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
    "LevIt": {},
}
"""The same for one image of 32 x 32 (LeViT: as configured)."""

PAIRS: dict[str, dict[str, Any]] = {"Bart": _BART, "Pegasus": _BART, "Marian": _BART, "T5": _T5, "MT5": _T5}
"""The same for models with an encoder and a decoder."""

_TORCHVISION = (
    *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "squeezenet1_1"),
    *("mnasnet0_5", "densenet121", "regnet_y_400mf", "convnext_tiny", "swin_t", "alexnet", "vgg11"),
)
_TIMM = (
    "deit_tiny_patch16_224",
    "mixer_s32_224",
    "ghostnet_050",
    "edgenext_xx_small",
    "pit_ti_224",
    "convmixer_768_32",
)


def _tokens() -> Tensor:
    return torch.randint(5, 400, (1, 16))


def _of_transformers(family: str, sizes: dict[str, Any], inputs: Callable[[Any], Case]) -> Callable[[], Case] | None:
    import transformers

    config, model = getattr(transformers, f"{family}Config", None), getattr(transformers, f"{family}Model", None)
    return None if config is None or model is None else lambda: inputs(model(config(**sizes)).eval())


def _text(model: nn.Module) -> Case:
    return model, (_tokens(),), {}


def _image(model: nn.Module) -> Case:
    config: Any = model.config
    size = config.image_size if isinstance(model, nn.Module) and type(model).__name__ == "LevitModel" else 32
    return model, (torch.randn(1, 3, size, size),), {}


def _pair(model: nn.Module) -> Case:
    return model, (), {"input_ids": _tokens(), "decoder_input_ids": _tokens()}


def _layers() -> dict[str, Callable[[], Case]]:
    """torch's own layers."""
    sequence = torch.randn(1, 10, 32)
    encoder = {"d_model": 32, "nhead": 2, "dim_feedforward": 64, "batch_first": True}

    def repeated(layer: Callable[[], nn.Module], inputs: Tensor, times: int = 8) -> Callable[[], Case]:
        return lambda: (nn.Sequential(*(layer() for _ in range(times))).eval(), (inputs,), {})

    return {
        "Linear": repeated(lambda: nn.Linear(32, 32), sequence),
        "Conv1d": repeated(lambda: nn.Conv1d(32, 32, 3, padding=1), sequence.transpose(1, 2)),
        "Conv2d": repeated(lambda: nn.Conv2d(8, 8, 3, padding=1), torch.randn(1, 8, 16, 16)),
        "ConvTranspose2d": repeated(lambda: nn.ConvTranspose2d(8, 8, 3, padding=1), torch.randn(1, 8, 16, 16)),
        "LayerNorm": repeated(lambda: nn.LayerNorm(32), sequence),
        "GroupNorm": repeated(lambda: nn.GroupNorm(4, 8), torch.randn(1, 8, 16, 16)),
        "GELU": repeated(nn.GELU, sequence),
        "LSTM": lambda: (nn.LSTM(32, 32, 2, batch_first=True).eval(), (sequence,), {}),
        "GRU": lambda: (nn.GRU(32, 32, 2, batch_first=True).eval(), (sequence,), {}),
        "MultiheadAttention": lambda: (nn.MultiheadAttention(32, 2, batch_first=True), (sequence,) * 3, {}),
        "TransformerEncoder": lambda: (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(**encoder), 2).train(),
            (sequence,),
            {},
        ),
        "Transformer": lambda: (
            nn.Transformer(32, 2, 2, 2, 64, batch_first=True).train(),
            (sequence, sequence),
            {},
        ),
    }


class _Perceptron(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


class _Loop(nn.Module):
    """One cell that is called again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(len(x), 32)
        for step in range(x.shape[1]):
            hidden = self.cell(x[:, step], hidden)
        return hidden


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(8, 8, 3, stride=2, padding=1) for _ in range(3))
        self.up = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for layer in self.down:
            kept.append(x)
            x = torch.relu(layer(x))
        for layer, skipped in zip(self.up, reversed(kept), strict=True):
            x = nn.functional.interpolate(x, size=skipped.shape[-2:])
            x = torch.relu(layer(torch.cat([x, skipped], 1)))
        return x


class _Experts(nn.Module):
    """Each token goes through one of four experts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.gate(x).argmax(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                result[mine] = expert(x[mine])
        return result


def _convolutions() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(16):
        layers += [nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers)


def _written() -> dict[str, Callable[[], Case]]:
    sequence = torch.randn(1, 10, 32)
    image = torch.randn(1, 8, 16, 16)
    return {
        "perceptron": lambda: (_Perceptron(12).eval(), (sequence,), {}),
        "recurrent loop": lambda: (_Loop().eval(), (sequence,), {}),
        "convolutions": lambda: (_convolutions().eval(), (image,), {}),
        "convolutions, training": lambda: (_convolutions().train(), (image,), {}),
        "u-net": lambda: (_UNet().eval(), (image,), {}),
        "experts": lambda: (_Experts().eval(), (sequence[0],), {}),
    }


def tiny_models() -> Iterator[tuple[str, Callable[[], Case]]]:
    """(name, what makes the model and its inputs)."""
    for kind, families, inputs in (("text", TEXT, _text), ("image", IMAGES, _image), ("pair", PAIRS, _pair)):
        for family, sizes in families.items():
            make = _of_transformers(family, sizes, inputs)
            if make is not None:
                yield f"{kind}: {family}", make
    for name, make in _layers().items():
        yield f"torch: {name}", make
    for name, make in _written().items():
        yield f"written: {name}", make
    try:
        import torchvision
    except ImportError:
        pass
    else:
        for name in _TORCHVISION:
            yield (
                f"torchvision: {name}",
                lambda name=name: (  # type: ignore[misc]
                    torchvision.models.get_model(name, weights=None).eval(),
                    (torch.randn(1, 3, 64, 64),),
                    {},
                ),
            )
    try:
        import timm
    except ImportError:
        return
    for name in _TIMM:
        yield f"timm: {name}", lambda name=name: (timm.create_model(name).eval(), (torch.randn(1, 3, 224, 224),), {})  # type: ignore[misc]


def real_models() -> Iterator[tuple[str, Callable[[], Case]]]:
    """BERT-base and GPT-2 small on 128 tokens, ResNet-50 on one image of 224 x 224."""
    import transformers

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from models.resnet import resnet50

    tokens = torch.randint(5, 900, (1, 128))
    yield "BERT-base", lambda: (transformers.BertModel(transformers.BertConfig()).eval(), (tokens,), {})
    yield "GPT-2 small", lambda: (transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval(), (tokens,), {})
    yield "ResNet-50", lambda: (resnet50().eval(), (torch.randn(1, 3, 224, 224),), {})


def llama_70b() -> Case:
    """Llama-3-70B on the meta device: 80 layers, no weights."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
        rope_theta=500000.0,
    )
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config).eval(), (torch.zeros(1, 128, dtype=torch.long),), {}


def models_of_folder(folder: str) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Models of a folder with a module ``zoo`` whose ``load()`` gives name -> (group, maker, …)."""
    sys.path.insert(0, folder)
    import zoo

    for name, (_, make, *_rest) in zoo.load().items():
        yield name, make
