"""Pairs of small models whose correspondence is known by construction, for the comparison of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Case:
    """truth: student path -> teacher paths of leaves."""

    name: str
    teacher: nn.Module
    student: nn.Module
    inputs: Tensor
    truth: dict[str, set[str]]


class Residual(nn.Module):
    def __init__(
        self, given: int, width: int, stride: int, act: Callable[[], nn.Module], norm: Callable[..., nn.Module]
    ):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(given, width, 3, stride, 1, bias=False), norm(width)
        self.act = act()
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), norm(width)
        self.shortcut = nn.Conv2d(given, width, 1, stride) if stride > 1 or given != width else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        return y + (self.shortcut(x) if self.shortcut is not None else x)


class ResidualNetwork(nn.Module):
    def __init__(
        self,
        depths: tuple[int, ...],
        width: int = 16,
        act: Callable[[], nn.Module] = nn.ReLU,
        norm: Callable[..., nn.Module] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        given = width
        for stage, depth in enumerate(depths, 1):
            wide = width * 2 ** (stage - 1)
            blocks = [Residual(given if k == 0 else wide, wide, 2 if k == 0 else 1, act, norm) for k in range(depth)]
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
            given = wide
        self.stages = len(depths)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(given, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in range(1, self.stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(self.pool(x).flatten(1))


class Renamed(nn.Module):
    """The modules of a residual network under other names."""

    def __init__(self, network: ResidualNetwork) -> None:
        super().__init__()
        self.a, self.b, self.c = network.stem, network.pool, network.fc
        self.d = nn.ModuleList(getattr(network, f"layer{stage}") for stage in range(1, network.stages + 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        for stage in self.d:
            x = stage(x)
        return self.c(self.b(x).flatten(1))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x)))


class FusedAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v))


class Layer(nn.Module):
    def __init__(self, width: int, attention: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), attention(width), nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, depth: int, width: int = 32, attention: Callable[[int], nn.Module] = Attention) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(16, width), nn.LayerNorm(width), nn.Linear(width, 4)
        self.layers = nn.ModuleList(Layer(width, attention) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def leaves(model: nn.Module) -> list[str]:
    return [path for path, module in model.named_modules() if path and not list(module.children())]


def same(model: nn.Module) -> dict[str, set[str]]:
    return {path: {path} for path in leaves(model)}


def _blocks(student: nn.Module, inside: str, other: dict[int, int]) -> Iterator[tuple[str, set[str]]]:
    """Leaves of a list's blocks, for blocks that correspond; everything else under its own name."""
    for path in leaves(student):
        if not path.startswith(inside + "."):
            yield path, {path}
            continue
        number, _, rest = path[len(inside) + 1 :].partition(".")
        yield path, {f"{inside}.{other[int(number)]}.{rest}"}


def cases() -> list[Case]:
    torch.manual_seed(0)
    image, tokens = torch.randn(1, 3, 32, 32), torch.randn(1, 8, 16)
    network = ResidualNetwork((2, 2, 2))
    renamed = Renamed(ResidualNetwork((2, 2, 2)))
    first = {"a": "stem", "b": "pool", "c": "fc"}
    to_old = {
        path: {first[path] if path in first else f"layer{int(path.split('.')[1]) + 1}.{path.split('.', 2)[2]}"}
        for path in leaves(renamed)
    }
    swapped = ResidualNetwork((2, 2, 2), act=nn.GELU, norm=lambda width: nn.GroupNorm(4, width))
    encoder = Encoder(12)
    fused_truth: dict[str, set[str]] = {}
    fused = Encoder(6, attention=FusedAttention)
    for path in leaves(fused):
        old = path.replace("attention.proj", "attention.out")
        parts = ("query", "key", "value")
        fused_truth[path] = {old.replace("qkv", part) for part in parts} if "qkv" in path else {old}
    half = Encoder(6)
    copied = Encoder(6)
    kept = [1, 2, 5, 6, 10, 11]
    for number, old in enumerate(kept):
        copied.layers[number].load_state_dict(encoder.layers[old].state_dict())
    return [
        Case("the same residual network", network, ResidualNetwork((2, 2, 2)), image, same(network)),
        Case("names made opaque", network, renamed, image, to_old),
        Case("half as wide", network, ResidualNetwork((2, 2, 2), width=8), image, same(network)),
        Case("GELU and GroupNorm for ReLU and BatchNorm", network, swapped, image, same(network)),
        Case(
            "encoder 12 → 6, published copy table",
            encoder,
            half,
            tokens,
            dict(_blocks(half, "layers", dict(enumerate((0, 2, 4, 7, 9, 11))))),
        ),
        Case(
            "encoder 12 → 6, cut from the teacher at random",
            encoder,
            copied,
            tokens,
            dict(_blocks(copied, "layers", dict(enumerate(kept)))),
        ),
        Case("query, key and value in one layer", Encoder(6), fused, tokens, fused_truth),
    ]
