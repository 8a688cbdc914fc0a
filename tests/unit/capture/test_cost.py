"""Times and memory of further passes: right, labelled, and without a trace."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.capture import capture, register_macs
from tb_plugin_structure.capture.timing import CudaClock, WallClock, clock_of
from tb_plugin_structure.records.structure import Structure
from tests.unit.capture.models import ConvNet, tiny_transformer
from tests.unit.capture.test_harmless import contents, global_hooks, hooks_of


def perceptron() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def operators(structure: Structure, column: str) -> list[tuple[str, float]]:
    return list(zip(structure.operators.column_texts("name"), structure.operators[column].tolist(), strict=True))


def of_module(structure: Structure, path: str, column: str) -> float:
    (call,) = structure.calls_of_module[structure.module_row[path]]
    return float(structure.module_calls[column][call])


# ---- times


class Sleeping(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return x + 1


def test_a_module_takes_as_long_as_it_sleeps_and_its_operators_do_not() -> None:
    model = nn.Sequential(Sleeping(0.0), Sleeping(0.02), Sleeping(0.0))
    structure = capture(model, torch.ones(2), time=3)
    slept = of_module(structure, "1", "duration_ns")
    assert slept >= 20e6
    assert of_module(structure, "0", "duration_ns") < slept
    assert of_module(structure, "", "duration_ns") >= slept
    assert structure.header.totals.duration_ns == int(of_module(structure, "", "duration_ns"))
    assert all(0 < duration < 20e6 for _, duration in operators(structure, "duration_ns"))
    assert structure.header.notes[-1].startswith("Times are medians of 3 warm passes (wall clock, CPU")


def test_without_asking_nothing_is_measured() -> None:
    structure = capture(perceptron(), torch.ones(2, 4))
    assert np.isnan(structure.module_calls["duration_ns"]).all()
    assert "duration_ns" not in structure.operators
    assert "peak_bytes" not in structure.module_calls
    assert structure.header.totals.duration_ns == structure.header.totals.peak_bytes == 0


def test_each_call_of_a_repeated_module_has_a_time_of_its_own() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.part(self.part(x))
            return result

    structure = capture(Twice(), torch.ones(2, 4), time=True)
    assert structure.module_calls.rows == 3
    assert (structure.module_calls["duration_ns"] > 0).all()


def test_passes_that_run_other_kernels_leave_operators_unknown_and_say_so() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x.exp() if self.count == 1 else x.sin()

    structure = capture(Changing(), torch.ones(2), time=2)
    assert all(math.isnan(duration) for _, duration in operators(structure, "duration_ns"))
    assert of_module(structure, "", "duration_ns") > 0
    assert "did not run the same kernels" in structure.header.notes[-1]


@pytest.mark.parametrize(("asked", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_a_number_of_passes_that_makes_no_sense_is_refused(asked: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="number of warm passes"):
        capture(perceptron(), torch.ones(2, 4), time=asked)


def test_nothing_takes_time_without_computing() -> None:
    with pytest.raises(ValueError, match="needs a pass that computes"):
        capture(perceptron(), torch.ones(2, 4), time=1, fake=True)
    with torch.device("meta"), pytest.raises(ValueError, match="needs a pass that computes"):
        capture(perceptron(), torch.ones(2, 4), time=1)


def test_the_clock_is_that_of_the_device() -> None:
    assert isinstance(clock_of(perceptron()), WallClock)
    with torch.device("meta"):
        assert "meta" in clock_of(perceptron()).description


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_events_measure_the_device() -> None:
    model = nn.Linear(2048, 2048).cuda()
    assert isinstance(clock_of(model), CudaClock)
    structure = capture(model, torch.randn(2048, 2048, device="cuda"), time=3)
    # 8.6 GFLOP: no device does it in a microsecond, none needs a second
    assert 1e3 < structure.header.totals.duration_ns < 1e9
    assert "CUDA events" in structure.header.notes[-1]


# ---- memory


def test_autograd_keeps_what_each_operator_needs_and_each_storage_once() -> None:
    structure = capture(perceptron(), torch.randn(10, 4), memory=True)
    # float32, 10 rows. linear: its input (10 x 4); gelu: its input (10 x 8); linear: its input (10 x 8);
    # relu: its result (10 x 8), which is also what the last linear needs. Weights are kept anyway.
    assert operators(structure, "saved_bytes") == [
        ("linear", 160.0),
        ("gelu", 320.0),
        ("linear", 320.0),
        ("relu", 320.0),
        ("linear", 0.0),
    ]
    assert structure.header.totals.saved_bytes == 1120


def test_peak_memory_counts_what_is_alive_at_once() -> None:
    # The first three results are kept for the backward pass or still read while relu makes the fourth.
    structure = capture(perceptron(), torch.randn(10, 4), memory=True)
    assert structure.header.totals.peak_bytes == 4 * 320
    assert of_module(structure, "", "peak_bytes") == 1280
    assert of_module(structure, "4", "peak_bytes") == 80
    with torch.no_grad():  # nothing is kept: never more than two results
        structure = capture(perceptron(), torch.randn(10, 4), memory=True)
    assert structure.header.totals.peak_bytes == 2 * 320
    assert structure.header.totals.saved_bytes == 0


def test_a_module_in_the_middle_needs_what_it_makes_and_drops_within() -> None:
    class Wide(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.repeat(100).sum().reshape(1)

    with torch.no_grad():
        structure = capture(nn.Sequential(nn.Identity(), Wide()), torch.ones(8), memory=True)
    assert of_module(structure, "1", "peak_bytes") == 100 * 8 * 4 + 4
    assert of_module(structure, "0", "peak_bytes") == 0


def test_views_and_writes_in_place_need_no_memory() -> None:
    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y[:2].add_(1)
            return y.view(2, 2).t().relu_()

    structure = capture(InPlace(), torch.ones(4), memory=True)
    assert structure.header.totals.peak_bytes == 16
    assert structure.header.totals.activation_bytes == 16


def test_a_checkpoint_keeps_less() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = perceptron()

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.part, x, use_reentrant=False)

    structure = capture(Checkpointed(), torch.randn(10, 4, requires_grad=True), memory=True)
    assert structure.header.totals.saved_bytes < 1120


def test_memory_is_known_without_weights() -> None:
    real = capture(perceptron(), torch.randn(10, 4), memory=True)
    weightless = capture(perceptron(), torch.randn(10, 4), memory=True, fake=True)
    assert weightless.header.totals.peak_bytes == real.header.totals.peak_bytes == 1280
    assert weightless.header.totals.saved_bytes == 1120


def test_custom_functions_keep_what_they_save() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x * 2
            ctx.save_for_backward(y)
            return y * x

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * ctx.saved_tensors[0]

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return Square.apply(x)

    structure = capture(Custom(), torch.ones(4, requires_grad=True), memory=True)
    assert structure.header.totals.saved_bytes == 16


# ---- no trace


@pytest.mark.parametrize("case", ["conv", "dropout", "bert"])
@pytest.mark.parametrize("restore_state", [True, False])
def test_measuring_changes_nothing_beyond_the_recorded_pass(case: str, restore_state: bool) -> None:
    torch.manual_seed(0)
    model: nn.Module
    args: tuple[Any, ...] = (torch.randn(2, 3, 16, 16),)
    kwargs: dict[str, Any] = {}
    if case == "conv":
        model = ConvNet().train()
    elif case == "dropout":
        model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Dropout(0.5))
    else:
        model, args, kwargs = tiny_transformer("bert")

    def state() -> Any:
        return contents(model.state_dict(keep_vars=True)), torch.get_rng_state().tolist(), hooks_of(model)

    def run(**options: Any) -> Any:
        torch.manual_seed(1)
        structure = capture(model, args, kwargs, restore_state=restore_state, **options)
        return structure.header.structure_hash, state()

    start = {name: value.clone() for name, value in model.state_dict().items()}
    plain = run()
    model.load_state_dict(start)
    versions = [parameter._version for parameter in model.parameters()]
    inputs = contents((args, kwargs))
    measured = run(time=2, memory=True)
    assert measured == plain
    assert contents((args, kwargs)) == inputs
    assert [parameter._version for parameter in model.parameters()] == versions
    assert all(parameter.grad is None for parameter in model.parameters())
    assert global_hooks() == (0, 0, 0, 0, 0)


def test_inputs_that_the_pass_writes_into_are_written_once() -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(1)

    x = torch.zeros(3)
    capture(Writes(), x, time=2, memory=True)
    assert x.tolist() == [1, 1, 1]


def test_a_pass_that_writes_into_parameters_is_not_repeated() -> None:
    model = nn.Embedding(9, 4, max_norm=1.0)
    structure = capture(model, torch.tensor([1, 2]), time=2, memory=True)
    assert structure.header.notes[-1] == (
        "Times and memory were not measured: the pass writes into the model's parameters."
    )
    assert structure.header.totals.duration_ns == 0


def test_a_pass_that_makes_lazy_parameters_is_not_repeated() -> None:
    structure = capture(nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()), torch.randn(3, 2), time=1, memory=True)
    assert list(structure.header.notes) == [
        "Times and memory were not measured: the pass writes into the model's parameters."
    ]


def test_a_later_pass_that_fails_costs_the_figures_alone() -> None:
    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ran = False

        def forward(self, x: Tensor) -> Tensor:
            if self.ran:
                raise RuntimeError("only once")
            self.ran = True
            return x + 1

    structure = capture(Once(), torch.ones(2), time=2, memory=True)
    assert structure.operators.rows == 1
    assert "Times could not be measured: RuntimeError: only once" in structure.header.notes
    assert global_hooks() == (0, 0, 0, 0, 0)


# ---- what is there already


def test_a_user_gives_an_operator_its_formula_and_the_total_is_covered() -> None:
    @torch.library.custom_op("tests_cost::triple", mutates_args=())
    def triple(x: Tensor) -> Tensor:
        return x * 3

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return triple(x)

    unknown = capture(Custom(), torch.ones(2, 3))
    assert [math.isnan(macs) for name, macs in operators(unknown, "macs")] == [True]
    assert unknown.header.totals.kernels_without_formula == 1

    @register_macs("tests_cost::triple")
    def _(inputs: Any, outputs: Any, arguments: Any) -> float:
        return 10.0 * inputs[0][0]

    known = capture(Custom(), torch.ones(2, 3))
    assert known.header.totals.macs == 20
    assert known.header.totals.kernels_without_formula == 0


def test_tied_parameters_weigh_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4, affine=False))
    model[1].weight = model[0].weight
    totals = capture(model.eval(), torch.ones(2, 4)).header.totals
    assert totals.parameter_bytes == 64
    assert totals.buffer_bytes == 2 * 16 + 8


def test_figures_survive_the_event_file(tmp_path: Any) -> None:
    with StructureWriter(tmp_path) as writer:
        structure = writer.add_structure("net", perceptron(), torch.randn(10, 4), time=2, memory=True)
    assert structure is not None
    again = Structure.decode(structure.encode())
    for table, column in (
        ("module_calls", "duration_ns"),
        ("module_calls", "peak_bytes"),
        ("operators", "duration_ns"),
        ("operators", "saved_bytes"),
    ):
        assert getattr(again, table)[column].tolist() == getattr(structure, table)[column].tolist()
    assert again.header.totals == structure.header.totals
