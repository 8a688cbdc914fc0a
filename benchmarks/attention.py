"""What recording attention costs, and what is stored: time beside a plain forward pass, bytes and error by length.

    python benchmarks/attention.py [--lengths 64 256 4x256 1024] [--tiers 64 256 1024 4096] [--repeats 3]

The model is a transformer of 6 layers, 12 heads and width 384 with fused attention, random weights, one thread. A
length of 4x256 is a batch of 4, of which one example is recorded, as by default. Times are processor times, the best of
`repeats` passes in turn; `×` is relative to the plain pass.
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
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure import AttentionOptions, observe
from tb_plugin_structure.capture.attention.kept import POSITIONS_A_WIDTH, KeptHead, add_details, keep_head
from tb_plugin_structure.capture.attention.kernels import FusedArguments
from tb_plugin_structure.capture.attention.sources import MatrixSource, QueryKeySource
from tb_plugin_structure.records.attention_details import FORMS, open_head
from tb_plugin_structure.v1 import attention_pb2

HEADS, WIDTH, LAYERS = 12, 384, 6
OVERVIEW_OF_32_ROWS = AttentionOptions(query_rows=32, detail_limit=0, watch={})


class PassThrough(TorchDispatchMode):
    """What any observer of kernels costs at least."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


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


def best(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Processor seconds of each, the least; run in turn, as other work on the machine comes and goes."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            times[name].append(time.process_time() - begin)
    return {name: min(measured[1:]) for name, measured in times.items()}


def recorded(model: nn.Module, x: torch.Tensor, options: AttentionOptions | None) -> Any:
    with torch.no_grad(), observe({"model": model}, attention=options, structures=False) as region:
        model(x)
    return region.attention.get("model")


def measure(size: str, repeats: int) -> None:
    batch, length = (int(part) for part in f"1x{size}".split("x")[-2:])
    fused, eager = build(True), build(False)
    x = torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(1))

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

    def passed_through() -> None:
        with torch.no_grad(), PassThrough():
            fused(x)

    runs = {
        "plain pass": plain(fused),
        "eager pass": plain(eager),
        "eager pass that keeps its maps": returned,
        "a dispatch mode that does nothing": passed_through,
        "kernels seen, nothing kept": lambda: recorded(fused, x, None),
        "32 query rows of all heads": lambda: recorded(fused, x, OVERVIEW_OF_32_ROWS),
        "all rows of all heads": lambda: recorded(fused, x, AttentionOptions(query_rows="all", watch={})),
        "the default": lambda: recorded(fused, x, AttentionOptions()),
    }
    seconds = best(runs, repeats)
    base = seconds.pop("plain pass")
    print(f"\n{batch} x {length} positions; plain fused pass {base * 1e3:.0f} ms")
    for name, measured in seconds.items():
        print(f"  {name:34} × {measured / base:.2f}")
    stored(eager, x[:1], length)


def stored(model: nn.Sequential, x: torch.Tensor, length: int) -> None:
    """Bytes and largest error of what is written, against the model's own maps."""
    for block in model:
        block.kept = []
    captured = recorded(model, x, AttentionOptions())
    truth = [np.asarray(block.kept[0][0], np.float64) for block in model]
    for block in model:
        block.kept = None
    overview = captured.overview()
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


def tiers(length: int, width: int = 64) -> None:
    """Bytes, errors and times of every form in which a causal head can be kept."""
    generator = torch.Generator().manual_seed(length)
    q, k = (torch.randn(1, 1, length, width, generator=generator) for _ in range(2))
    source = QueryKeySource(FusedArguments(q, k, causal="top_left"))
    truth = source.rows(0, [0], torch.arange(length)).probabilities[0]
    matrix = MatrixSource(truth[None, None], width=1)  # as if it were the larger one, without query and key
    whole = MatrixSource(truth[None, None], width=length)  # as if the matrix were the smaller form
    rows = [(2 * at + 1) * length // 64 for at in range(32)]
    forms: dict[str, Callable[[], KeptHead | None]] = {
        "matrix": lambda: keep_head(whole, 0, 0),
        "tiles": lambda: keep_head(matrix, 0, 0),
        "32 rows": lambda: keep_head(source, 0, 0, rows),
    }
    if length > POSITIONS_A_WIDTH * width:
        forms["query and key"] = lambda: keep_head(source, 0, 0)
    print(f"\n{length} positions, width {width}: one causal head")
    for name, make in forms.items():
        begin = time.process_time()
        kept = make()
        seconds = time.process_time() - begin
        assert kept is not None
        header, blobs = attention_pb2.AttentionDetailHeader(), []
        add_details(header, blobs, [kept], length, length, {})
        head = open_head(header.details[0], 0, [b"", *blobs].__getitem__)
        begin = time.process_time()
        head.window(slice(length // 2, length // 2 + 1), slice(0, length))
        row_ms = 1e3 * (time.process_time() - begin)
        values = head.window(slice(0, length), slice(0, length))
        known = ~np.isnan(values[:, 0])
        error = np.abs(values[known] - truth.numpy()[known])
        sums = np.abs(values[known].sum(-1, dtype=np.float64) - 1).max()
        form = FORMS[kept.codec]
        print(
            f"  {name:14} {sum(map(len, blobs)):>10,} bytes  error {error.max():.1e}  row sums {sums:.1e}  "
            f"written in {1e3 * seconds:6.0f} ms  a row read in {row_ms:.2f} ms{'' if form in name else f' ({form})'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", nargs="*", default=["64", "256", "4x256", "1024"])
    parser.add_argument("--tiers", type=int, nargs="*", default=[64, 256, 1024, 4096])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size in arguments.lengths:
        measure(size, arguments.repeats)
    for length in arguments.tiers:
        tiers(length)


if __name__ == "__main__":
    main()
