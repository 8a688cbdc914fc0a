"""What recording costs beside a plain pass and beside a dispatch mode that does nothing.

    python benchmarks/capture.py                      # models written here and tiny transformers
    python benchmarks/capture.py --real               # BERT-base, GPT-2 small at real sizes
    python benchmarks/capture.py --peers              # add_graph, torch.export, torchview, torchlens where installed

Prints CPU milliseconds (least of several runs) and ratios. `floor` is the price of being able to look at all.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure import capture

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


class Nothing(TorchDispatchMode):
    """Runs every kernel and looks at nothing."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def cases(real: bool) -> dict[str, Callable[[], Case]]:
    """Name -> model and inputs, made afresh."""
    import transformers as t

    ids = torch.randint(5, 900, (1, 128 if real else 16))

    def bert() -> Case:
        config = t.BertConfig() if real else t.BertConfig(hidden_size=32, num_attention_heads=2, intermediate_size=64)
        return t.BertModel(config).eval(), (ids,), {}

    def gpt2() -> Case:
        config = t.GPT2Config() if real else t.GPT2Config(n_embd=32, n_head=2)
        return t.GPT2LMHeadModel(config).eval(), (ids,), {}

    def vit() -> Case:
        small = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
        config = t.ViTConfig() if real else t.ViTConfig(image_size=32, patch_size=8, **small)
        size = 224 if real else 32
        return t.ViTModel(config).eval(), (torch.randn(1, 3, size, size),), {}

    def convolutions() -> Case:
        width, size = (256, 56) if real else (8, 16)
        layers: list[nn.Module] = []
        for _ in range(16):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*layers).eval(), (torch.randn(1, width, size, size),), {}

    return {"bert": bert, "gpt2": gpt2, "vit": vit, "convolutions": convolutions}


def least(run: Callable[[], Any], repeats: int) -> float:
    """CPU milliseconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return 1e3 * min(times)


def add_graph(model: nn.Module, args: tuple[Any, ...]) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with tempfile.TemporaryDirectory() as directory, SummaryWriter(directory) as writer:
        writer.add_graph(model, args, use_strict_trace=False)


def torchview(model: nn.Module, args: tuple[Any, ...]) -> None:
    from torchview import draw_graph

    draw_graph(model, input_data=list(args), depth=10_000, expand_nested=True)


def torchlens(model: nn.Module, args: tuple[Any, ...]) -> None:
    import torchlens

    torchlens.trace(model, list(args))


PEERS: dict[str, Callable[[nn.Module, tuple[Any, ...]], Any]] = {
    "add_graph": add_graph,
    "torch.export": lambda model, args: torch.export.export(model, args, strict=False),
    "torchview": torchview,
    "torchlens": torchlens,
}


def peer_cost(name: str, model: nn.Module, args: tuple[Any, ...], plain: float) -> str:
    """'×12.3', or why there is no figure."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return f"×{least(lambda: PEERS[name](model, args), 1) / plain:.1f}"
    except ImportError:
        return "not installed"
    except Exception as error:
        return f"fails: {type(error).__name__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--real", action="store_true", help="real sizes instead of tiny ones")
    parser.add_argument("--peers", action="store_true", help="other recorders as well")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    to_plain, to_floor = [], []
    print(f"{'model':<14}{'plain ms':>10}{'floor':>8}{'ours':>8}{'ours/floor':>12}{'kernels':>9}{'KB':>7}")
    for name, make in cases(options.real).items():
        model, args, kwargs = make()

        def run(model: nn.Module = model, args: Any = args, kwargs: Any = kwargs) -> None:
            model(*args, **kwargs)

        def under_nothing(run: Callable[[], None] = run) -> None:
            with Nothing():
                run()

        def record(model: nn.Module = model, args: Any = args, kwargs: Any = kwargs) -> Any:
            return capture(model, args, kwargs)

        run()
        record()
        plain = least(run, options.repeats)
        floor = least(under_nothing, options.repeats) / plain
        ours = least(record, options.repeats) / plain
        structure = record()
        kilobytes = sum(map(len, structure.encode())) / 1024
        to_plain.append(ours)
        to_floor.append(ours / floor)
        kernels = structure.kernels.rows
        print(f"{name:<14}{plain:>10.2f}{floor:>8.2f}{ours:>8.2f}{ours / floor:>12.2f}{kernels:>9}{kilobytes:>7.0f}")
        if options.peers:
            print("   " + ", ".join(f"{peer} {peer_cost(peer, model, args, plain)}" for peer in PEERS))
    print(f"median: {statistics.median(to_plain):.2f} × plain, {statistics.median(to_floor):.2f} × floor")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
