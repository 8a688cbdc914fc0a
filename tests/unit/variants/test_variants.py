"""Several passes of one model: what ran in which of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tb_plugin_structure.analysis.variants import are_variants, compare_variants
from tb_plugin_structure.capture import capture
from tb_plugin_structure.cli.event_files import EventFiles
from tb_plugin_structure.cli.main import main
from tb_plugin_structure.writer import StructureWriter


class Network(nn.Module):
    """In training mode: dropout and a second head (a block of two layers); in evaluation mode: a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(4, 2)
        self.auxiliary = nn.Sequential(nn.Linear(4, 3), nn.ReLU())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        x = self.drop(self.norm(self.body(x)))
        if self.training:
            return self.head(x), self.auxiliary(x)
        return self.head(x).softmax(-1)  # type: ignore[no-any-return]


X = torch.ones(3, 4)


def test_calls_and_operators_of_each_mode_are_told_apart() -> None:
    model = Network()
    train = capture(model.train(), (X,), variant="train")
    evaluation = capture(model.eval(), (X,), variant="eval")
    compared = compare_variants(train, evaluation)

    assert compared.rows() == [
        ("changed", "module", "(model)", "training True -> False, all modules"),
        ("only in train", "call", "auxiliary", "Sequential (with 2 calls and 2 operators in it)"),
        ("only in train", "operator", "norm", "add_"),
        ("only in train", "operator", "drop", "dropout"),
        ("only in eval", "operator", "(model)", "softmax"),
        (
            "changed",
            "call",
            "(model)",
            "0 float32[3, 2] -> none, 1 float32[3, 3] -> none, output none -> float32[3, 2]",
        ),
        ("changed", "operator", "norm", "batch_norm: training True -> False"),
    ]
    assert compared.summary() == (
        "train and eval: 1 call and 2 operators only in train, 1 operator only in eval, 3 differ."
    )


def test_equal_passes_do_not_differ() -> None:
    model = Network().eval()
    compared = compare_variants(capture(model, (X,)), capture(model, (X,)))
    assert compared.differences == ()
    assert compared.summary() == "the first and the second ran the same calls and operators."


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = torch.tanh(self.cell(x))
        return x


def test_further_iterations_are_calls_of_their_own() -> None:
    model = Recurrent()
    compared = compare_variants(capture(model, (X, 2), variant="two"), capture(model, (X, 4), variant="four"))
    assert compared.rows() == [
        ("only in four", "call", "cell[2]", "Linear (with 1 operator in it)"),
        ("only in four", "call", "cell[3]", "Linear (with 1 operator in it)"),
        ("only in four", "operator", "(model)", "tanh"),
        ("only in four", "operator", "(model)", "tanh"),
    ]


def test_only_records_of_one_model_are_variants() -> None:
    first = capture(Recurrent(), (X, 1), name="student")
    assert are_variants(first, capture(Recurrent(), (X, 3), name="student", variant="long"))
    assert not are_variants(first, capture(Recurrent(), (X, 1), name="teacher"))
    assert not are_variants(first, capture(Network(), (X,), name="student"))


def test_recorded_steps_keep_variants_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Network()
    with StructureWriter(tmp_path) as writer:
        with writer.record_step({"student": model.train()}, step=5):
            logits, auxiliary = model(X)
            (logits.sum() + auxiliary.sum()).backward()
        with writer.record_step({"student": model.eval()}, step=5, variant="eval", attention=False):
            model(X).log().sum().backward()
    files = EventFiles.read(tmp_path)
    assert sorted(key.tag for key in files.records) == [
        "measurement/student",
        "measurement/student/eval",
        "outside/step",
        "outside/step%2Feval",
        "structure/student",
        "structure/student/eval",
    ]
    # Each variant's measurements go with it: the auxiliary head is reached by a gradient in training only.
    for model_name, reached in (("student", 1.0), ("student/eval", 0.0)):
        _, measured = files.beside(files.find(model_name)[0])
        assert measured["student"].quantity("gradient_reached", 1)["auxiliary.0.weight"] == reached

    first, second = f"{tmp_path}:student", f"{tmp_path}:student/eval"
    assert main(["diff", first, second, "--fail-on", "any-change"]) == 1
    printed = capsys.readouterr()
    assert "main and eval: 1 call and 2 operators only in main" in printed.out
    assert "only in eval" in printed.out
    assert "any-change: main and eval" in printed.err
    assert main(["diff", first, first, "--fail-on", "any-change"]) == 0
