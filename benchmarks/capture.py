"""What recording costs beside a plain pass and beside a dispatch mode that does nothing.

    python benchmarks/capture.py                      # over 60 tiny models of many families
    python benchmarks/capture.py --real               # BERT-base, GPT-2 small, ResNet-50 at real sizes
    python benchmarks/capture.py --real --peers       # add_graph, torch.export, torchview, torchlens where installed
    python benchmarks/capture.py --only bert          # models whose name contains this
    python benchmarks/capture.py --models FOLDER      # models of a folder of one's own instead
    python benchmarks/capture.py --memory             # growth over repeated recordings; Llama-3-70B on the meta device

Prints CPU milliseconds (least of several runs, the ways taken in turn) and ratios. `floor` is the price of being able
to look at all: a dispatch mode that passes every kernel on. `least` is the least that a recorder written in Python can
do: it notes of each kernel its overload, arguments and outlines of results, and when each module begins and ends, finds
no edge, no line of source and no parameter, and throws all away; what `ours` costs beyond it is what can still be saved
without another language. `ours` is `capture()`, which copies out of the model what
may change later; the tables are put together when they are first read, and `read` is `capture()` with that included,
as the writer pays it (compression and the event file left out, see `first_light.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import resource
import statistics
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture_models import Case, llama_70b, models_of_folder, real_models, tiny_models

from tb_plugin_structure import capture


class Nothing(TorchDispatchMode):
    """Runs every kernel and looks at nothing."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Least(TorchDispatchMode):
    """Notes what cannot be found out afterwards, and makes nothing of it."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Any] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Least:
        note = self.noted.append
        self._handles = [
            register_module_forward_pre_hook(lambda module, args: note((id(module), len(args)))),
            register_module_forward_hook(lambda module, args, output: note((id(module), id(output)))),
        ]
        super().__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        for handle in self._handles:
            handle.remove()


def _note(self: Least, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    result = func(*args, **(kwargs or {}))
    read = tuple([id(value) if isinstance(value, Tensor) else value for value in args])
    made = ()
    if isinstance(result, Tensor) and result.layout is torch.strided:
        made = (
            weakref.ref(result),
            result.data_ptr(),
            *(result.shape, result.stride(), result.dtype, result.device, result.storage_offset()),
        )
    self.noted.append((func, read, kwargs, made))
    return result


Least.__torch_dispatch__ = _note  # type: ignore[assignment]  # not in the class, where torch wraps it at a cost


def costs(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """CPU milliseconds of the fastest of several runs of each way, which are taken in turn."""
    best = dict.fromkeys(ways, float("inf"))
    for run in ways.values():
        run()
    gc.collect()
    for _ in range(repeats):
        for name, run in ways.items():
            begin = time.process_time()
            run()
            best[name] = min(best[name], 1e3 * (time.process_time() - begin))
    return best


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
            return f"×{costs({name: lambda: PEERS[name](model, args)}, 1)[name] / plain:.1f}"
    except ImportError:
        return "not installed"
    except Exception as error:
        return f"fails: {type(error).__name__}"


def measured(case: Case, repeats: int) -> tuple[dict[str, float], int, float]:
    """Costs of each way, kernels, and KB of the record."""
    model, args, kwargs = case

    def observed() -> None:
        with Nothing():
            model(*args, **kwargs)

    def least() -> None:
        with Least():
            model(*args, **kwargs)

    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: model(*args, **kwargs),
        "floor": observed,
        "least": least,
        "ours": lambda: capture(model, args, kwargs),
        "read": lambda: capture(model, args, kwargs).header,
    }
    found = costs(ways, repeats)
    structure = capture(model, args, kwargs)
    return found, structure.kernels.rows, sum(map(len, structure.encode())) / 1024


def resident_mb() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def growth() -> None:
    """Memory after many recordings of one model that are thrown away, and of one that is kept and never read."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(50))).eval()
    inputs = (torch.randn(64, 256),)
    for _ in range(20):
        capture(model, inputs)
    gc.collect()
    before = resident_mb()
    for _ in range(300):
        capture(model, inputs)
    gc.collect()
    print(f"300 recordings thrown away: {resident_mb() - before:+.1f} MB")
    tensors = sum(isinstance(each, torch.Tensor) for each in gc.get_objects())
    kept = capture(model, inputs)
    gc.collect()
    more = sum(isinstance(each, torch.Tensor) for each in gc.get_objects()) - tensors
    print(f"a record that nobody has read holds {more} tensors (samples of its weights); {kept!r}")


def llama() -> None:
    model, args, kwargs = llama_70b()
    before = time.process_time()
    structure = capture(model, args, kwargs, name="llama")
    size = sum(map(len, structure.encode())) / 1024
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Llama-3-70B on meta: {seconds:.2f} s of CPU with tables and compression, {size:.0f} KB, peak {peak:.0f} MB")
    print(repr(structure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--real", action="store_true", help="real sizes instead of tiny ones")
    parser.add_argument("--peers", action="store_true", help="other recorders as well")
    parser.add_argument("--memory", action="store_true", help="memory instead of time")
    parser.add_argument("--models", metavar="FOLDER", help="a folder with a module `zoo`, see capture_models.py")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.memory:
        llama()
        growth()
        return
    models = models_of_folder(options.models) if options.models else real_models() if options.real else tiny_models()
    to_plain, to_floor, least_to_floor, read_to_floor = [], [], [], []
    columns = f"{'plain ms':>9}{'floor':>7}{'least':>7}{'ours':>7}{'read':>7}{'ours/floor':>12}{'read/floor':>12}"
    print(f"{'model':<32}{columns}{'kernels':>9}{'KB':>6}")
    for name, make in models:
        if options.only.lower() not in name.lower():
            continue
        torch.manual_seed(0)
        try:
            case = make()
            found, kernels, kilobytes = measured(case, options.repeats)
        except Exception as error:  # a family whose configuration has changed, a model that is meant to raise
            print(f"{name:<32} left out: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:70]}")
            continue
        plain = found["plain"]
        floor, least, ours, read = (found[way] / plain for way in ("floor", "least", "ours", "read"))
        to_plain.append(ours)
        to_floor.append(ours / floor)
        least_to_floor.append(least / floor)
        read_to_floor.append(read / floor)
        ratios = f"{floor:>7.2f}{least:>7.2f}{ours:>7.2f}{read:>7.2f}{ours / floor:>12.2f}{read / floor:>12.2f}"
        print(f"{name:<32}{plain:>9.2f}{ratios}{kernels:>9}{kilobytes:>6.0f}", flush=True)
        if options.peers:
            model, args, _ = case
            print("   " + ", ".join(f"{peer} {peer_cost(peer, model, args, plain)}" for peer in PEERS), flush=True)
    if not to_plain:
        parser.error("no model has such a name")
    median = statistics.median
    print(
        f"median of {len(to_plain)} models: capture() {median(to_plain):.2f} × plain, {median(to_floor):.2f} × floor;"
    )
    print(f"  with its tables read {median(read_to_floor):.2f} × floor;")
    print(f"  the least that a recorder in Python can do {median(least_to_floor):.2f} × floor")


if __name__ == "__main__":
    main()
