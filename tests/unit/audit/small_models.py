"""Small models of many families, each with an input; a model takes any batch size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import transformers
from torch import Tensor, nn

Made = tuple[nn.Module, Callable[[int], dict[str, Any]]]
"""A model and a function: batch size -> keyword inputs."""


class Residual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(channels_in, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + self.shortcut(x))


class ConvNet(nn.Module):
    """Stages of residual blocks, pooled and classified."""

    def __init__(self, widths: tuple[int, ...], blocks: int = 2, classes: int = 10, ceil_mode: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.pool = nn.MaxPool2d(2, ceil_mode=ceil_mode)
        stages = []
        for position, width in enumerate(widths):
            before = widths[max(0, position - 1)]
            layers = [Residual(before if block == 0 else width, width, 2 if block == 0 and position else 1)
                      for block in range(blocks)]  # fmt: skip
            stages.append(nn.Sequential(*layers))
        self.stages = nn.ModuleList(stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.pool(self.stem(image))
        for stage in self.stages:
            x = stage(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


class ChannelsLast(nn.Module):
    """A map kept as [batch, height, width, channels], as Swin does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image).permute(0, 2, 3, 1)
        x = x + self.mlp(self.norm(x))
        return self.head(x.mean((1, 2)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attention = nn.Softmax(dim=-1)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = self.attention(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches and `special` leading tokens."""

    def __init__(self, width: int, heads: int, depth: int = 2, patch: int = 4, special: int = 1) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.special = nn.Parameter(torch.randn(1, special, width)) if special else None
        self.position = nn.Parameter(torch.randn(1, special + (32 // patch) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image).flatten(2).transpose(1, 2)
        if self.special is not None:
            x = torch.cat((self.special.expand(x.shape[0], -1, -1), x), dim=1)
        x = x + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Speech(nn.Module):
    """Convolutions over time, then a recurrent layer (batch first) or layers that take the time first."""

    def __init__(self, width: int, stride: int, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.conv = nn.Conv1d(8, width, 3, stride, 1)
        self.norm = nn.BatchNorm1d(width)
        if batch_first:
            self.layer: nn.Module = nn.GRU(width, width, batch_first=True)
        else:
            self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=False)
        self.head = nn.Linear(width, 12)

    def forward(self, mel: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(mel)))
        if self.batch_first:
            x, _ = self.layer(x.transpose(1, 2))
            return self.head(x)
        return self.head(self.layer(x.permute(2, 0, 1))).transpose(0, 1)


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.layers = nn.Sequential(nn.Linear(3 * 32 * 32, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(self.flatten(image))


class Recurrent(nn.Module):
    """A tagger; its LSTM reads in both directions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(99, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 9)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(input_ids))[0])


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.first = self._block(3, width)
        self.downs = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), self._block(a, b)) for a, b in pairwise(widths))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(list(pairwise(widths))))
        self.joins = nn.ModuleList(self._block(2 * a, a) for a in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, 5, 1)

    @staticmethod
    def _block(source: int, target: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(source, target, 3, padding=1), nn.BatchNorm2d(target), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        maps = [self.first(image)]
        for down in self.downs:
            maps.append(down(maps[-1]))
        x = maps.pop()
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(torch.cat((maps.pop(), up(x)), dim=1))
        return self.last(x)


class AutoEncoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(width * 64, 12))
        self.decoder = nn.Sequential(
            nn.Linear(12, width * 64), nn.Unflatten(1, (width, 8, 8)), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 4)
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.decoder(self.encoder(image))


def _image(batch: int) -> dict[str, Any]:
    return {"image": torch.randn(batch, 3, 32, 32)}


def _odd_image(batch: int) -> dict[str, Any]:
    return {"image": torch.randn(batch, 3, 33, 33)}


def _mel(batch: int) -> dict[str, Any]:
    return {"mel": torch.randn(batch, 8, 24)}


def _ids(batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(5, 90, (batch, 12))}


def _longer_ids(batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(5, 90, (batch, 15))}


def _pixels(batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


def _text_config(width: int, heads: int, layers: int = 2) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "intermediate_size": 2 * width,
        "attn_implementation": "eager",
    }


def small_models() -> dict[str, Made]:
    """All of them, in evaluation mode, weights from the current random state."""
    made: dict[str, Made] = {
        "convnet": (ConvNet((8, 16, 24)), _image),
        "convnet_wide": (ConvNet((16, 32), blocks=1), _image),
        "convnet_odd": (ConvNet((8, 16)), _odd_image),
        "convnet_ceil": (ConvNet((8, 12), ceil_mode=True), _odd_image),
        "channels_last": (ChannelsLast(12), _image),
        "channels_last_wide": (ChannelsLast(20), _image),
        "vit": (VisionTransformer(24, 3), _image),
        "vit_fine": (VisionTransformer(32, 4, patch=2), _image),
        "vit_two_tokens": (VisionTransformer(16, 2, special=2), _image),
        "vit_no_token": (VisionTransformer(16, 6 - 2, special=0), _image),
        "speech": (Speech(16, 1), _mel),
        "speech_strided": (Speech(12, 2), _mel),
        "speech_time_first": (Speech(16, 1, batch_first=False), _mel),
        "perceptron": (Perceptron(20), _image),
        "recurrent": (Recurrent(16), _ids),
        "recurrent_wide": (Recurrent(24), _ids),
        "unet": (UNet(8, 3), _image),
        "unet_shallow": (UNet(4, 2), _image),
        "autoencoder": (AutoEncoder(8), _image),
        "autoencoder_small": (AutoEncoder(4), _image),
        "bert": (transformers.BertModel(transformers.BertConfig(vocab_size=99, **_text_config(24, 3))), _ids),
        "bert_longer": (
            transformers.BertModel(transformers.BertConfig(vocab_size=99, **_text_config(16, 2))),
            _longer_ids,
        ),
        "gpt2": (
            transformers.GPT2LMHeadModel(
                transformers.GPT2Config(
                    vocab_size=99, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
                    attn_implementation="eager",
                )
            ),
            _ids,
        ),
        "deit": (
            transformers.DeiTModel(transformers.DeiTConfig(image_size=32, patch_size=8, **_text_config(24, 3))),
            _pixels,
        ),
        "swin": (
            transformers.SwinModel(
                transformers.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                        window_size=4, attn_implementation="eager")
            ),
            _pixels,
        ),
    }  # fmt: skip
    for model, _ in made.values():
        model.eval()
    return made
