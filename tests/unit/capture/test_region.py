"""A region with several models, a loss, a backward pass and an optimizer."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tb_plugin_structure.capture import capture, observe
from tb_plugin_structure.records.schema import ORIGINS
from tb_plugin_structure.records.structure import Structure
from tests.unit.capture.models import ConvNet


def names(structure: Structure) -> list[str]:
    return structure.operators.column_texts("name")


def external_inputs(structure: Structure) -> set[str]:
    tensors = structure.tensors
    return {
        tensors.text("name", row) for row in range(tensors.rows) if ORIGINS[int(tensors["origin"][row])] == "external"
    }


def test_loss_between_models_is_outside_and_names_the_modules_it_compares() -> None:
    teacher, student = ConvNet().eval(), ConvNet().train()
    images = torch.randn(2, 3, 8, 8)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            wanted = teacher(images)
        given = student(x=images)
        loss = F.mse_loss(given["logits"], wanted["logits"])

    assert set(region.structures) == {"teacher", "student"}
    assert region.outside is not None
    assert names(region.outside) == ["mse_loss"]
    assert external_inputs(region.outside) == {"teacher/head", "student/head"}
    assert region.structures["teacher"].header.provenance.grad_mode == "no_grad"
    assert region.structures["student"].header.provenance.grad_mode == "grad"
    assert region.structures["student"].header.inputs[0].name == "x"
    assert math.isfinite(loss.item())


def test_a_feature_handed_from_one_model_to_the_other_is_external() -> None:
    encoder, decoder = nn.Linear(4, 8), nn.Linear(8, 2)
    with observe({"encoder": encoder, "decoder": decoder}) as region:
        decoder(encoder(torch.randn(3, 4)))
    decoder_record = region.structures["decoder"]
    row = int(decoder_record.module_calls.values("inputs", 0)[0])
    assert ORIGINS[int(decoder_record.tensors["origin"][row])] == "external"
    assert decoder_record.tensors.text("name", row) == "encoder"


def test_backward_and_optimizer_leave_no_operator_and_are_measured() -> None:
    model = ConvNet()
    optimizer = torch.optim.SGD([model.head.weight, model.stem.weight], lr=0.1)
    images = torch.randn(2, 3, 8, 8)
    with observe({"student": model}, optimizer=optimizer) as region:
        loss = model(images)["logits"].sum()
        loss.backward()
        expected = {name: p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        optimizer.zero_grad()

    assert region.outside is not None
    assert names(region.outside) == ["sum"]
    measured = region.measurements["student"]
    assert measured.quantity("gradient_norm", 1) == pytest.approx(expected, rel=1e-5)
    reached = measured.quantity("gradient_reached", 1)
    assert reached["head.bias"] == 1.0
    assert reached["unused.weight"] == 0.0
    trained = measured.quantity("in_optimizer", 1)
    assert trained["head.weight"] == 1.0
    assert trained["head.bias"] == 0.0
    whole = math.sqrt(sum(norm**2 for norm in expected.values()))
    assert measured.quantity("gradient_norm", 0)[""] == pytest.approx(whole, rel=1e-5)
    assert measured.header.structure_hash == region.structures["student"].header.structure_hash


def test_two_calls_of_a_model_are_two_calls_of_its_root() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with observe({"m": model}) as region:
        model(torch.randn(1, 4))
        model(torch.randn(2, 4))
    calls = region.structures["m"].module_calls
    assert [int(value) for value in calls["parent"]].count(-1) == 2
    assert Structure.decode(region.structures["m"].encode()).module_calls.rows == 6


def test_a_part_called_alone_is_recorded_below_an_implied_call_of_the_model() -> None:
    model = ConvNet()
    with observe({"m": model}) as region:
        model.head(model.stem(torch.randn(1, 3, 8, 8)).mean((2, 3)))
    structure = region.structures["m"]
    assert [structure.call_path(call) for call in range(structure.module_calls.rows)] == ["", "stem", "head"]


def test_gradient_computed_within_forward_is_recorded() -> None:
    class Energy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            x = x.requires_grad_()
            return torch.autograd.grad(self.net(x).tanh().sum(), x, create_graph=True)[0] * 2

    model = Energy()
    with observe({"m": model}) as region:
        model(torch.randn(2, 4))
    structure = region.structures["m"]
    kernels = structure.kernels.column_texts("name")
    assert "aten.tanh_backward.default" in kernels
    assert names(structure)[-1] == "*"


def test_checkpointed_recomputation_in_backward_is_no_second_call() -> None:
    from torch.utils.checkpoint import checkpoint

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = checkpoint(self.a, x, use_reentrant=False)
            return y

    model = Model()
    with observe({"m": model}) as region:
        model(torch.randn(2, 4)).sum().backward()
    assert region.structures["m"].modules["calls"].tolist() == [1, 1]


def test_an_error_of_the_users_code_passes_through_and_the_record_says_what_failed() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4))
    region = observe({"m": model})
    with pytest.raises(RuntimeError, match="cannot be multiplied"), region:
        model(torch.randn(1, 4))
    error = region.structures["m"].header.error
    assert (error.type, error.module_path, error.kernel) == ("RuntimeError", "1", "aten.addmm.default")


def test_listeners_hear_every_kernel_with_the_module_around_it() -> None:
    heard: list[tuple[str, str, int]] = []

    class Listener:
        def before_kernel(self, func: object, args: object, kwargs: object, call: object) -> None:
            pass

        def after_kernel(self, func: object, args: object, kwargs: object, result: object, call: object) -> None:
            heard.append((call.model, call.module_path, call.ordinal))  # type: ignore[attr-defined]

    layer = nn.Linear(4, 4, bias=False)
    model = nn.Sequential(layer, layer)
    with observe({"m": model}, listeners=[Listener()]):
        model(torch.randn(1, 4)).sum()
    assert set(heard) == {("m", "0", 0), ("m", "0", 1), ("", "", 0)}


def test_wrappers_are_seen_through_and_listed() -> None:
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 4)))
    with observe({"m": model}) as region:
        model(torch.randn(1, 4))
    structure = region.structures["m"]
    assert structure.module_paths == ["", "0"]
    assert list(structure.header.provenance.wrappers) == ["DataParallel"]


def test_wrong_values_are_refused_with_a_message() -> None:
    with pytest.raises(ValueError, match="source is 'all'"):
        observe({"m": nn.Linear(1, 1)}, source="all")
    with pytest.raises(TypeError, match="'m' is int"):
        observe({"m": 3})  # type: ignore[dict-item]


def test_as_deep_a_model_as_python_can_call_can_be_recorded() -> None:
    import sys

    limit = sys.getrecursionlimit()
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(250):
        model = nn.Sequential(model)
    structure = capture(model, torch.randn(1, 4))
    assert structure.module_calls.rows == 251
    assert sys.getrecursionlimit() == limit


def test_operators_keep_their_names_within_a_default_device() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with torch.device("cpu"):
        structure = capture(model, torch.randn(1, 4))
    assert structure.operators.column_texts("name") == ["linear", "relu"]


def test_listeners_learn_which_call_of_its_module_a_kernel_runs_in() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.shared(self.shared(x))

    class Listener:
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        def before_kernel(self, func: object, args: object, kwargs: object, call: object) -> None:
            pass

        def after_kernel(self, func: object, args: object, kwargs: object, result: object, call: object) -> None:
            entry = (call.module_path, call.ordinal)  # type: ignore[attr-defined]
            if call.module_path and entry not in self.seen:  # type: ignore[attr-defined]
                self.seen.append(entry)

    listener = Listener()
    model = Twice()
    with observe({"model": model}, listeners=[listener]):
        model(torch.randn(1, 4))
        model(torch.randn(1, 4))
    assert listener.seen == [("shared", 0), ("shared", 1), ("shared", 2), ("shared", 3)]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_that_the_optimizer_runs_is_recorded_and_the_optimizer_s_own_kernels_are_not(by_name: bool) -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), torch.randn(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with observe({"student": model}) as plain:
        closure()
    with observe({"student": model}) as region:
        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
    assert loss is not None
    recorded = region.structures["student"]
    assert recorded.kernels.rows == plain.structures["student"].kernels.rows > 0
    assert recorded.header.structure_hash == plain.structures["student"].header.structure_hash
    assert region.outside is not None
    assert plain.outside is not None
    assert region.outside.kernels.rows == plain.outside.kernels.rows


def test_every_evaluation_of_l_bfgs_is_a_call() -> None:
    model, x = nn.Linear(3, 1), torch.randn(4, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    seen = 0

    def closure() -> torch.Tensor:
        nonlocal seen
        seen += 1
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with observe({"student": model}) as region:
        optimizer.step(closure)
    assert seen > 1
    assert region.structures["student"].module_calls.rows == seen
