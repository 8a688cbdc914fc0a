"""What recording attention costs, and what is stored: time beside a plain forward pass, bytes and error by length.

    python benchmarks/attention.py [--lengths 64 256 1024] [--repeats 3]

The model is a transformer of 6 layers, 12 heads and width 384 with fused attention, random weights, one example, one
thread. Times are processor times, the best of `repeats`; `×` is relative to the plain pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure import AttentionOptions, observe
from tb_plugin_structure.records.attention import decode_detail_header, decode_matrix

HEADS, WIDTH, LAYERS = 12, 384, 6


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused, self.num_heads = fused, HEADS
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.kept: list[torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
            if self.kept is not None:
                self.kept.append(weights)
            mixed = weights @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        result: torch.Tensor = x + self.mlp(self.norm2(x))
        return result


def build(fused: bool) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(fused) for _ in range(LAYERS))).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.06)  # neither flat nor one-hot maps
    return model


def best(run: Callable[[], Any], repeats: int) -> float:
    """Processor seconds."""
    run()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return min(times)


def recorded(model: nn.Module, x: torch.Tensor, options: AttentionOptions | None) -> Any:
    with torch.no_grad(), observe({"model": model}, attention=options, gradients=False) as region:
        model(x)
    return region.attention.get("model")


def measure(length: int, repeats: int) -> None:
    fused, eager = build(True), build(False)
    x = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(1))

    def plain(model: nn.Module) -> Callable[[], Any]:
        def run() -> None:
            with torch.no_grad():
                model(x)

        return run

    def returned() -> None:
        for block in eager:
            block.kept = []  # what a model does that returns its attentions
        plain(eager)()
        for block in eager:
            block.kept = None

    base = best(plain(fused), repeats)
    print(f"\n{length} positions; plain fused pass {base * 1e3:.0f} ms")
    for name, run in {
        "eager pass": plain(eager),
        "eager pass that keeps its maps": returned,
        "observed, no attention": lambda: recorded(fused, x, None),
        "32 query rows of all heads": lambda: recorded(fused, x, AttentionOptions(query_rows=32)),
        "everything": lambda: recorded(fused, x, AttentionOptions(query_rows="all")),
    }.items():
        print(f"  {name:34} × {best(run, repeats) / base:.2f}")
    stored(eager, x, length)


def stored(model: nn.Sequential, x: torch.Tensor, length: int) -> None:
    """Bytes and largest error of what is written, against the model's own maps."""
    for block in model:
        block.kept = []
    captured = recorded(model, x, AttentionOptions(query_rows="all", watch={"*": [0]}))
    truth = [np.asarray(block.kept[0][0], np.float64) for block in model]
    overview, details = captured.overview(), captured.details()
    count = LAYERS * HEADS
    size = sum(map(len, overview.encode()))
    error = ""
    if length <= 64:
        worst = max(
            np.abs(overview.plane(layer, head) - truth[layer][head]).max() / truth[layer][head].max()
            for layer in range(LAYERS)
            for head in range(HEADS)
        )
        error = f", within {worst:.2%} of the largest probability"
    print(f"  overview and statistics            {size:>10,} bytes, {size / count:,.0f} a head{error}")
    heads = size = 0
    worst = sums = 0.0
    for layer, blobs in enumerate(details.values()):
        (detail,) = decode_detail_header(blobs).details
        for position, head in enumerate(detail.heads):
            matrix = decode_matrix(detail, blobs[detail.first_blob + position])
            worst = max(worst, float(np.abs(matrix - truth[layer][head]).max()))
            sums = max(sums, float(np.abs(matrix.sum(-1, dtype=np.float64) - 1).max()))
        heads += len(detail.heads)
        size += sum(map(len, blobs))
    if heads:
        print(
            f"  full matrices of {heads:3} heads          {size:>10,} bytes, {size / heads:,.0f} a head, "
            f"error {worst:.1e}, row sums {sums:.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="*", default=[64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for length in arguments.lengths:
        measure(length, arguments.repeats)


if __name__ == "__main__":
    main()
