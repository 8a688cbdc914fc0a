"""Gradients beside a recorded pass: where they arrive, how large they are, and what cuts their way."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tb_plugin_structure import StructureWriter, align, audit
from tb_plugin_structure.capture import capture
from tb_plugin_structure.cli.event_files import EventFiles, Key
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure


class TwoParts(nn.Module):
    """An encoder and a head; what lies between them is given."""

    def __init__(self, between: Any = None, encoder_grad: bool = True) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 3)
        self.between = between
        self.encoder_grad = encoder_grad

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.encoder_grad):
            hidden = self.encoder(x)
        if self.between is not None:
            hidden = self.between(hidden)
        logits: Tensor = self.head(hidden)
        return logits


ENCODER = {"encoder.0.weight", "encoder.0.bias", "encoder.2.weight", "encoder.2.bias"}
HEAD = {"head.weight", "head.bias"}


def quantity(structure: Structure, name: str, subject: int = 1) -> dict[str, float]:
    assert structure.gradients is not None, list(structure.header.notes)
    return structure.gradients.quantity(name, subject=subject)


def reached(structure: Structure) -> dict[str, float]:
    return quantity(structure, "gradient_reached")


def cuts(structure: Structure) -> list[str]:
    return [note for note in structure.header.notes if note.startswith("No gradient reaches")]


def test_norms_are_those_of_a_real_backward_pass_and_nothing_is_left_on_the_model() -> None:
    model, x, wanted = TwoParts(), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def loss(output: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, wanted)

    structure = capture(model, x, backward=loss)
    assert all(parameter.grad is None for parameter in model.parameters())

    loss(model(x)).backward()
    norms = {path: float(p.grad.norm()) for path, p in model.named_parameters() if p.grad is not None}
    assert quantity(structure, "gradient_norm") == pytest.approx(norms, rel=1e-5)
    assert set(reached(structure).values()) == {1.0}
    whole = math.sqrt(sum(norm**2 for norm in norms.values()))
    assert quantity(structure, "gradient_norm", subject=0)[""] == pytest.approx(whole, rel=1e-5)
    assert not structure.header.notes
    assert structure.gradients is not None
    assert structure.gradients.header.structure_hash == structure.header.structure_hash


def test_true_stands_for_the_sum_of_squares_of_all_outputs() -> None:
    class TwoOutputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
            nn.init.constant_(self.a.weight, 3.0)
            nn.init.constant_(self.b.weight, 5.0)

        def forward(self, x: Tensor) -> dict[str, Any]:
            return {"a": self.a(x), "rest": [self.b(x), torch.arange(3)]}

    structure = capture(TwoOutputs(), torch.tensor([[2.0]]), backward=True)
    # d (2 w)^2 / dw = 8 w
    assert quantity(structure, "gradient_norm") == {"a.weight": 24.0, "b.weight": 40.0}


def test_existing_gradients_and_hooks_on_accumulation_stay_untouched() -> None:
    model = TwoParts()
    model(torch.ones(1, 4)).sum().backward()
    before = {path: (p.grad, p.grad.clone()) for path, p in model.named_parameters() if p.grad is not None}
    fired: list[Tensor] = []
    model.head.weight.register_post_accumulate_grad_hook(fired.append)
    capture(model, torch.randn(2, 4), backward=True)
    assert not fired
    for path, parameter in model.named_parameters():
        kept, values = before[path]
        assert parameter.grad is kept
        assert torch.equal(kept, values)


def test_the_record_is_the_same_as_without_a_backward_pass() -> None:
    model, x = TwoParts(), torch.randn(2, 4)
    plain, measured = capture(model, x), capture(model, x, backward=True)
    assert plain.gradients is None
    assert measured.header.structure_hash == plain.header.structure_hash
    assert measured.kernels.column_texts("name") == plain.kernels.column_texts("name")
    assert measured.gradients is not None


def test_batch_statistics_and_random_state_are_as_before() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    capture(model, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), backward=True)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def test_detach_is_named_with_its_line() -> None:
    structure = capture(TwoParts(lambda hidden: hidden.detach()), torch.randn(2, 4), backward=True)
    assert {path for path, value in reached(structure).items() if value == 0.0} == ENCODER
    assert {path for path, value in reached(structure).items() if value == 1.0} == HEAD
    (note,) = cuts(structure)
    assert note.startswith("No gradient reaches encoder.0.weight and 3 more: cut at detach (")
    assert "test_backward.py:" in note


def test_no_grad_is_named_at_the_operator_that_ran_under_it() -> None:
    structure = capture(TwoParts(encoder_grad=False), torch.randn(2, 4), backward=True)
    assert {path for path, value in reached(structure).items() if value == 0.0} == ENCODER
    first, second = cuts(structure)
    assert first.startswith("No gradient reaches encoder.0.weight and 1 more: cut at linear in encoder.0 (")
    assert second.startswith("No gradient reaches encoder.2.weight and 1 more: cut at linear in encoder.2 (")
    assert first.endswith("which ran with gradients turned off.")


def test_argmax_is_named_with_its_integer_result() -> None:
    codes = nn.Embedding(8, 8)
    structure = capture(TwoParts(lambda hidden: codes(hidden.argmax(-1))), torch.randn(2, 4), backward=True)
    (note,) = cuts(structure)
    assert "encoder.0.weight and 3 more: cut at argmax" in note
    assert note.endswith("whose result is int64.")


def test_a_frozen_parameter_is_not_missed() -> None:
    model = TwoParts()
    model.encoder[0].weight.requires_grad_(False)
    structure = capture(model, torch.randn(2, 4), backward=True)
    assert "encoder.0.weight" not in reached(structure)
    assert quantity(structure, "requires_grad")["encoder.0.weight"] == 0.0
    assert set(reached(structure).values()) == {1.0}
    assert not structure.header.notes


def test_parameters_that_do_not_lead_to_the_loss() -> None:
    class Outputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.a(x), self.b(x)

    structure = capture(Outputs(), torch.randn(1, 2), backward=lambda output: output[0].sum())
    assert cuts(structure) == [
        "No gradient reaches b.weight and 1 more: the loss does not use the outputs that it leads to.",
        "No gradient reaches unused.weight and 1 more: the pass does not read it.",
    ]


class Double(torch.autograd.Function):
    """Its kernels run with gradients turned off, its result has one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x + 1) * 2 - 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * 2


def double(x: Tensor) -> Any:
    return Double.apply(x)  # type: ignore[no-untyped-call]


def test_values_that_leave_torch_have_no_operator_to_name() -> None:
    structure = capture(TwoParts(lambda hidden: torch.tensor(hidden.tolist())), torch.randn(2, 4), backward=True)
    assert cuts(structure) == [
        "No gradient reaches encoder.0.weight and 3 more: no recorded operator leads from it to the output."
    ]


def test_a_custom_function_on_the_way_is_no_cut() -> None:
    structure = capture(TwoParts(lambda h: double(h).sin().detach()), torch.randn(2, 4), backward=True)
    (note,) = cuts(structure)
    assert "cut at detach (" in note
    through = capture(TwoParts(double), torch.randn(2, 4), backward=True)
    assert set(reached(through).values()) == {1.0}
    assert not cuts(through)


def test_an_output_without_gradient_is_a_note_and_names_the_cut() -> None:
    class Labels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Any:
            return self.head(x).argmax(-1)

    structure = capture(Labels(), torch.randn(2, 4), backward=True)
    assert structure.header.notes[0] == "No gradient was computed: no output of the model requires one."
    assert reached(structure) == {"head.weight": 0.0, "head.bias": 0.0}
    assert "cut at argmax" in structure.header.notes[1]


def test_under_no_grad_nothing_is_measured_and_a_note_says_so() -> None:
    with torch.no_grad():
        structure = capture(TwoParts(), torch.randn(2, 4), backward=True)
    assert structure.gradients is None
    assert any("gradients turned off" in note for note in structure.header.notes)


@pytest.mark.parametrize("fake", [True, False])
def test_without_values_gradients_arrive_but_have_no_norm(fake: bool) -> None:
    between = torch.Tensor.detach
    if fake:
        structure = capture(TwoParts(between), torch.randn(2, 4), fake=True, backward=True)
    else:
        structure = capture(TwoParts(between).to("meta"), torch.zeros(2, 4, device="meta"), backward=True)
    assert {path for path, value in reached(structure).items() if value == 1.0} == HEAD
    assert quantity(structure, "gradient_norm") == {}
    assert any(note.startswith("Gradients have no norm") for note in structure.header.notes)
    assert len(cuts(structure)) == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing(reentrant: bool) -> None:
    part = nn.Linear(8, 8)
    model = TwoParts(lambda hidden: checkpoint(part, hidden, use_reentrant=reentrant))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        structure = capture(model, torch.randn(2, 4), backward=True)
    if reentrant:
        assert structure.gradients is None
        assert any("reentrant checkpointing" in note for note in structure.header.notes)
    else:
        assert set(reached(structure).values()) == {1.0}


def test_a_graph_that_the_inputs_come_from_is_still_there_afterwards() -> None:
    before, model = nn.Linear(4, 4), TwoParts()
    features = before(torch.randn(2, 4)).exp()
    capture(model, features, backward=True)
    features.sum().backward()
    assert before.weight.grad is not None


def test_half_precision_does_not_overflow() -> None:
    model = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    nn.init.constant_(model.weight, 2.0)
    structure = capture(model, torch.ones(1, 1, dtype=torch.bfloat16), backward=True)
    assert quantity(structure, "gradient_norm") == {"weight": 4.0}


def test_what_is_no_loss_is_refused() -> None:
    with pytest.raises(TypeError, match="backward is str, expected True"):
        capture(TwoParts(), torch.randn(2, 4), backward="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape \[2, 3\], expected a scalar"):
        capture(TwoParts(), torch.randn(2, 4), backward=lambda output: output)
    with pytest.raises(TypeError, match="returned float"):
        capture(TwoParts(), torch.randn(2, 4), backward=lambda output: output.sum().item())


def test_add_structure_writes_a_measurement_of_the_same_step(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        structure = writer.add_structure("student", TwoParts(), torch.randn(2, 4), step=3, backward=True)
        writer.add_structure("teacher", TwoParts(), torch.randn(2, 4), step=3)
    assert structure is not None
    found = EventFiles.read(tmp_path).records
    assert [key.tag for key in found if key.tag.startswith("measurement")] == ["measurement/student"]
    measured = Measurement.decode(found[Key("", "measurement/student", 3)])
    assert measured.quantity("gradient_reached", subject=1) == dict.fromkeys([*ENCODER, *HEAD], 1.0)
    assert measured.header.structure_hash == structure.header.structure_hash


def test_a_backward_pass_of_its_own_is_not_taken_for_a_loss_that_reaches_the_teacher() -> None:
    teacher = capture(TwoParts(), torch.randn(2, 4), name="teacher", backward=True)
    student = capture(TwoParts(torch.Tensor.detach), torch.randn(2, 4), name="student", backward=True)
    assert teacher.gradients is not None
    assert student.gradients is not None
    measured = {"teacher": teacher.gradients, "student": student.gradients}
    findings = {found.rule for found in audit(align(teacher=teacher, student=student), measurements=measured).findings}
    assert "no-gradient" in findings
    assert "teacher-receives-gradient" not in findings
