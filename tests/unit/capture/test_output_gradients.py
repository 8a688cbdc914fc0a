"""Gradients at module outputs: right, where they stop, and without a trace on the user's tensors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.capture import capture, observe
from tb_plugin_structure.records.structure import Structure
from tests.unit.capture.models import tiny_transformer
from tests.unit.capture.test_harmless import contents, global_hooks, gradients


def norms(measured: Any) -> dict[str, float]:
    found: dict[str, float] = measured.quantity("output_gradient_norm")
    return found


def reached(measured: Any) -> dict[str, float]:
    found: dict[str, float] = measured.quantity("output_gradient_reached")
    return found


def gradients_of(structure: Structure) -> Any:
    assert structure.gradients is not None, list(structure.header.notes)
    return structure.gradients


class Chain(nn.Module):
    """Three scalings by 2, 3 and 5; what lies between the first and the second is given."""

    def __init__(self, between: Any = None) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(2, 2, bias=False) for _ in range(3))
        for layer, factor in ((self.a, 2.0), (self.b, 3.0), (self.c, 5.0)):
            layer.weight.data = factor * torch.eye(2)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        if self.between is not None:
            x = self.between(x)
        result: Tensor = self.c(self.b(x))
        return result


def test_norms_are_the_derivatives_by_hand() -> None:
    # loss = sum of outputs: the gradient at the model's output is (1, 1), 5 times that at b's, 15 times at a's.
    measured = gradients_of(capture(Chain(), torch.ones(1, 2), backward=lambda output: output.sum()))
    root = math.sqrt(2)
    assert norms(measured) == pytest.approx({"": root, "a": 15 * root, "b": 5 * root, "c": root})
    assert set(reached(measured).values()) == {1.0}


def test_a_recorded_step_measures_the_users_own_backward_pass() -> None:
    model, x = Chain(), torch.ones(1, 2)
    with observe({"net": model}) as region:
        model(x).sum().backward()
    root = math.sqrt(2)
    assert norms(region.measurements["net"]) == pytest.approx({"": root, "a": 15 * root, "b": 5 * root, "c": root})


def test_calls_of_one_module_and_elements_of_its_output_add_up() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Identity()

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.part(x * 1), self.part(x * 2)

    x = torch.ones(1, requires_grad=True)
    measured = gradients_of(capture(Twice(), x, backward=lambda output: 3 * output[0] + 4 * output[1]))
    assert norms(measured) == {"": 5.0, "part": 5.0}


@pytest.mark.parametrize(
    ("between", "cause"),
    [
        (lambda x: x.detach(), "cut at detach"),
        (lambda x: x.long().float(), "whose result is int64"),
        (lambda x: nn.functional.one_hot(x.argmax(-1), 2).float(), "cut at argmax"),
        (torch.no_grad()(lambda x: x * 2), "which ran with gradients turned off"),
    ],
    ids=["detach", "integer cast", "argmax", "no_grad"],
)
def test_where_the_chain_is_cut_nothing_arrives_before(between: Any, cause: str) -> None:
    structure = capture(Chain(between), torch.ones(1, 2), backward=True)
    assert reached(gradients_of(structure)) == {"": 1.0, "a": 0.0, "b": 1.0, "c": 1.0}
    assert "a" not in norms(gradients_of(structure))
    (note,) = [note for note in structure.header.notes if note.startswith("No gradient reaches a.weight")]
    assert cause in note


def test_an_overwrite_in_place_lets_only_zeros_through_and_is_named() -> None:
    structure = capture(Chain(lambda x: x.zero_()), torch.ones(1, 2), backward=lambda output: output.sum())
    assert norms(gradients_of(structure))["b"] == pytest.approx(5 * math.sqrt(2))
    (note,) = [note for note in structure.header.notes if "a.weight" in note]
    assert note.startswith("Only zeros reach a.weight: cut at zero_")
    assert note.endswith("which overwrites it in place.")


def in_two_pieces(x: Tensor) -> Tensor:
    x[:, :1] = 1.0
    x[:, 1:] = x.detach().mean()
    return x


def row_by_row(x: Tensor) -> Tensor:
    for row in range(len(x)):
        x[row] = row
    return x


def interleaved(x: Tensor) -> Tensor:
    x[:, ::2] = 0.0
    x[:, 1::2] = 1.0
    return x * 2


@pytest.mark.parametrize(("between", "writes"), [(in_two_pieces, 2), (row_by_row, 3), (interleaved, 2)])
def test_overwrites_that_cover_a_value_piece_by_piece_are_named(between: Any, writes: int) -> None:
    structure = capture(Chain(between), torch.ones(3, 2), backward=lambda output: output.sum())
    (note,) = [note for note in structure.header.notes if "a.weight" in note]
    assert note.startswith("Only zeros reach a.weight: cut at [...] = (tests/unit/capture/test_output_gradients.py:")
    assert note.endswith(f"overwrites it in place, the last of {writes} writes that do so piece by piece.")


def half_overwritten_and_multiplied_by_zero(x: Tensor) -> Tensor:
    x[:, :1] = 1.0
    return x * 0


def read_before_it_is_overwritten(x: Tensor) -> Tensor:
    kept = x * 0
    x[:, :1] = 1.0
    x[:, 1:] = 1.0
    return x + kept


@pytest.mark.parametrize("between", [half_overwritten_and_multiplied_by_zero, read_before_it_is_overwritten])
def test_overwrites_that_leave_a_way_open_are_not_blamed_for_zeros(between: Any) -> None:
    structure = capture(Chain(between), torch.ones(3, 2), backward=lambda output: output.sum())
    assert structure.gradients is not None
    assert structure.gradients.quantity("gradient_norm", subject=1)["a.weight"] == 0
    assert [note for note in structure.header.notes if "a.weight" in note] == []


def test_an_output_that_nobody_uses_is_named_when_no_parameter_is() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            self.scale(x * 2)
            return x * 3

    structure = capture(Unused(), torch.ones(2, requires_grad=True), backward=True)
    assert reached(gradients_of(structure)) == {"": 1.0, "scale": 0.0}
    assert any(note.startswith("No gradient reaches the output of scale") for note in structure.header.notes)


def test_a_frozen_model_still_shows_what_arrives_on_the_way_to_its_input() -> None:
    model = Chain().requires_grad_(False)
    x = torch.ones(1, 2, requires_grad=True)
    measured = gradients_of(capture(model, x, backward=lambda output: output.sum()))
    assert norms(measured)["a"] == pytest.approx(15 * math.sqrt(2))
    assert x.grad is None


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_a_step_under_observation_is_bit_for_bit_the_step_without(kind: str) -> None:
    def step(observed: bool) -> Any:
        model, args, kwargs = tiny_transformer(kind)
        model.train()
        torch.manual_seed(3)
        if observed:
            with observe({"net": model}) as region:
                output = model(*args, **kwargs)
                output[0].square().mean().backward()
            assert norms(region.measurements["net"])
        else:
            output = model(*args, **kwargs)
            output[0].square().mean().backward()
        assert output[0]._backward_hooks is None
        return contents(output), gradients(model), torch.get_rng_state().tolist()

    assert step(True) == step(False)
    assert global_hooks() == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_run_as_they_do_without(reentrant: bool) -> None:
    model, x = Chain(), torch.ones(1, 2, requires_grad=True)

    def step() -> list[bytes]:
        model.zero_grad()
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        return [contents(parameter.grad)[0] for parameter in model.parameters()]

    plain = step()
    with observe({"net": model}) as region:
        assert step() == plain
    root = math.sqrt(2)
    assert norms(region.measurements["net"]) == pytest.approx({"": root, "a": 15 * root, "b": 5 * root, "c": root})
    assert set(reached(region.measurements["net"]).values()) == {1.0}


def test_checkpoints_within_a_model_and_within_each_other_measure_each_output_once() -> None:
    class Nested(Chain):
        def inner(self, x: Tensor) -> Any:
            return checkpoint(self.b, self.a(x), use_reentrant=False)

        def forward(self, x: Tensor) -> Any:
            return self.c(checkpoint(self.inner, x, use_reentrant=True))

    model, x = Nested(), torch.ones(1, 2, requires_grad=True)
    with observe({"net": model}) as region:
        model(x).sum().backward()
    root = math.sqrt(2)
    assert norms(region.measurements["net"]) == pytest.approx({"": root, "a": 15 * root, "b": 5 * root, "c": root})


def test_where_no_gradient_enters_a_reentrant_checkpoint_none_is_said_to_arrive() -> None:
    class Detached(Chain):
        def forward(self, x: Tensor) -> Any:
            return self.c(checkpoint(self.b, self.a(x), use_reentrant=True).detach())

    model, x = Detached(), torch.ones(1, 2, requires_grad=True)
    with observe({"net": model}) as region:
        model(x).sum().backward()
    assert reached(region.measurements["net"]) == {"": 1.0, "a": 0.0, "c": 1.0}


def test_a_tensor_that_is_written_in_place_after_its_module_returned_is_measured_at_both_places() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.relu = nn.Linear(2, 2, bias=False), nn.ReLU(inplace=True)
            self.a.weight.data = torch.diag(torch.tensor([1.0, -1.0]))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.relu(self.a(x))
            return result

    measured = gradients_of(capture(InPlace(), torch.ones(1, 2), backward=lambda output: output.sum()))
    # ReLU lets one of two elements through.
    assert norms(measured) == pytest.approx({"": math.sqrt(2), "relu": math.sqrt(2), "a": 1.0})


def test_a_pass_without_gradients_has_none() -> None:
    model = Chain()
    with torch.no_grad(), observe({"net": model}) as region:
        model(torch.ones(1, 2))
    assert region.measurements == {}


def test_norms_are_written_beside_the_structure(tmp_path: Any) -> None:
    model = Chain()
    with StructureWriter(tmp_path) as writer:
        with writer.record_step({"net": model}, step=0) as observed:
            model(torch.ones(1, 2)).sum().backward()
    assert set(norms(observed.measurements["net"])) == {"", "a", "b", "c"}
