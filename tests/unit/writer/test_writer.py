"""What StructureWriter writes, and that it never disturbs the training it is part of."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from tb_plugin_structure import CaptureFailed, Quantity, StructureWriter, capture
from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header, decode_matrix
from tb_plugin_structure.records.plan import decode_plan, plan_pins, plan_policies
from tb_plugin_structure.records.structure import Structure
from tests.support.event_files import read_records
from tests.support.read_summaries import measurements_in


class SmallAttention(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        mixed, _ = self.attention(x, x, x)
        return self.head((x + mixed).mean(1))


def tags(folder: Path) -> list[tuple[str, int]]:
    return [(record.tag, record.step) for record in read_records(folder)]


def test_the_name_capture_is_a_function_whatever_was_imported_before() -> None:
    import tb_plugin_structure
    import tb_plugin_structure.capture
    from tb_plugin_structure.capture import observe

    assert callable(tb_plugin_structure.capture)
    assert callable(observe)
    assert capture(nn.Linear(2, 3), torch.zeros(1, 2)).name == "model"


def test_structures_with_their_configuration(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        returned = writer.add_structure("teacher", nn.Linear(4, 3), torch.zeros(2, 4), config={"width": 4})
        writer.add_structure("student/small", nn.Linear(4, 2), (torch.zeros(2, 4),), variant="eval")
    teacher, student = read_records(tmp_path)
    assert (teacher.tag, student.tag) == ("structure/teacher", "structure/student%2Fsmall/eval")
    structure = Structure.decode(teacher.blobs)
    assert structure.config == {"width": 4}
    assert structure.output_shapes(0) == [("", (2, 3))]
    assert returned is not None
    assert returned.header.structure_hash == structure.header.structure_hash


def test_an_unchanged_structure_is_written_once_and_a_changed_one_again(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    with StructureWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_structure("model", model, torch.zeros(2, 4), step=step)
        writer.add_structure("model", model.eval(), torch.zeros(2, 4), step=3)
        with pytest.raises(ValueError, match="already written at step 3; a further record needs a later step"):
            writer.add_structure("model", model.train(), torch.zeros(2, 4), step=3)
    assert tags(tmp_path) == [("structure/model", 0), ("structure/model", 3)]


def test_without_a_step_a_changed_structure_takes_the_next_one(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        writer.add_structure("model", nn.Linear(4, 3), torch.zeros(2, 4))
        writer.add_structure("model", nn.Linear(4, 3), torch.zeros(2, 4))
        writer.add_structure("model", nn.Linear(4, 2), torch.zeros(2, 4))
    assert tags(tmp_path) == [("structure/model", 0), ("structure/model", 1)]


def test_a_recorded_step_writes_structures_what_ran_between_them_gradients_and_attention(tmp_path: Path) -> None:
    torch.manual_seed(0)
    teacher, student = SmallAttention(16, 4).eval(), SmallAttention()
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    with StructureWriter(tmp_path) as writer:
        for step in range(5):
            x = torch.randn(2, 6, 4)
            with writer.record_step(
                {"teacher": teacher, "student": student}, step=step, optimizer=optimizer, every=2
            ) as observation:
                assert (observation is None) == bool(step % 2)
                with torch.no_grad():
                    wanted = teacher(x)
                loss = nn.functional.mse_loss(student(x), wanted)
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
    found = tags(tmp_path)
    assert [step for tag, step in found if tag == "overview/student"] == [0, 2, 4]
    assert [step for tag, step in found if tag == "structure/student"] == [0]
    assert [step for tag, step in found if tag == "measurement/student"] == [0, 2, 4]
    assert ("outside/step", 0) in found
    assert ("detail/teacher/attention", 4) in found

    by_tag = {record.tag: record for record in read_records(tmp_path)}
    outside = Structure.decode(by_tag["outside/step"].blobs)
    assert "mse_loss" in outside.operators.column_texts("name")
    overview = AttentionOverview.decode(by_tag["overview/teacher"].blobs)
    assert [(layer.module_path, layer.heads) for layer in overview.header.layers] == [("attention", 4)]
    blobs = by_tag["detail/teacher/attention"].blobs
    detail = decode_detail_header(blobs).details[0]
    matrix = decode_matrix(detail, blobs[detail.first_blob])
    assert matrix.shape == (6, 6)
    assert matrix.sum(1) == pytest.approx([1.0] * 6, abs=2e-3)


def test_a_pinned_step_is_recorded_when_the_budget_is_used_up(tmp_path: Path) -> None:
    model = SmallAttention()
    with StructureWriter(tmp_path, attention_bytes_per_run=8_000) as writer:
        for step in range(40):
            with writer.record_step({"model": model}, step=step, every=2, structure=False, pin=step == 39):
                model(torch.randn(1, 6, 4))
    steps = [step for tag, step in tags(tmp_path) if tag == "overview/model"]
    assert steps[0] == 0
    assert len(steps) < 20
    assert steps[-1] == 39


def test_recording_changes_no_gradient_and_no_weight(tmp_path: Path) -> None:
    def train(writer: StructureWriter | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = SmallAttention()
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(3):
            x = torch.randn(2, 6, 4)
            if writer is None:
                loss = model(x).square().mean()
                loss.backward()
            else:
                with writer.record_step({"model": model}, step=step, optimizer=optimizer):
                    loss = model(x).square().mean()
                    loss.backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    with StructureWriter(tmp_path) as writer:
        recorded = train(writer)
    assert all(torch.equal(a, b) for a, b in zip(train(None), recorded, strict=True))


@pytest.mark.parametrize("place", ["before_kernel", "after_kernel"])
def test_a_fault_while_observing_ends_the_recording_and_not_the_step(tmp_path: Path, place: str) -> None:
    class Faulty:
        kernels = 0

        def before_kernel(self, *_: object) -> None:
            self.fail("before_kernel")

        def after_kernel(self, *_: object) -> None:
            self.fail("after_kernel")

        def fail(self, here: str) -> None:
            self.kernels += here == place
            if self.kernels == 3:
                raise KeyError("a fault of the observer")

    torch.manual_seed(0)
    model = SmallAttention()
    x = torch.randn(2, 6, 4)
    wanted = model(x)
    with StructureWriter(tmp_path) as writer:
        with writer.record_step({"model": model}, step=0, listeners=[Faulty()]):
            got = model(x)
            got.sum().backward()
    assert torch.equal(got, wanted)
    assert model.embed.weight.grad is not None
    (record,) = [record for record in read_records(tmp_path) if record.tag == "structure/model"]
    notes = list(Structure.decode(record.blobs).header.notes)
    assert any("recording stopped on KeyError" in note for note in notes)
    assert not nn.modules.module._global_forward_hooks


def test_record_attention_writes_attention_alone_with_tokens(tmp_path: Path) -> None:
    model = SmallAttention()
    with StructureWriter(tmp_path) as writer:
        with writer.record_attention({"model": model}, step=1, tokens={"model": list("abcdef")}):
            model(torch.randn(1, 6, 4))
    records = read_records(tmp_path)
    assert {record.tag for record in records} == {"overview/model", "detail/model/attention"}
    overview = next(AttentionOverview.decode(r.blobs) for r in records if r.tag == "overview/model")
    assert list(overview.header.axes[0].tokens) == list("abcdef")


def test_a_summary_writer_is_shared_and_stays_open(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as summary:
        summary.add_scalar("loss", 1.0, 0)
        with StructureWriter(summary) as writer:
            writer.add_structure("model", nn.Linear(2, 2), torch.zeros(1, 2))
            assert writer.logdir == str(tmp_path)
        summary.add_scalar("loss", 0.5, 1)
    assert len(list(tmp_path.glob("*tfevents*"))) == 1
    assert tags(tmp_path) == [("structure/model", 0)]


def test_a_directory_with_event_files_of_others_is_left_alone(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as summary:
        summary.add_scalar("loss", 1.0, 0)
        with StructureWriter(tmp_path) as writer:
            writer.add_structure("model", nn.Linear(2, 2), torch.zeros(1, 2))
    assert len(list(tmp_path.glob("*tfevents*"))) == 1
    assert len(list((tmp_path / "structure").glob("*tfevents*"))) == 1


def test_a_writer_that_wrote_nothing_leaves_no_file(tmp_path: Path) -> None:
    with StructureWriter(tmp_path / "run"):
        pass
    assert list((tmp_path / "run").glob("*")) == []


def test_a_forward_that_raises_leaves_a_partial_record_and_a_clear_error(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(5, 2))
    with StructureWriter(tmp_path) as writer:
        with pytest.raises(CaptureFailed, match=r"in module '2'.*aten.addmm.default got float32\[2\] cpu") as failure:
            writer.add_structure("model", model, torch.zeros(1, 4))
    assert failure.value.structure is not None
    (record,) = read_records(tmp_path)
    structure = Structure.decode(record.blobs)
    assert structure.header.error.type == "RuntimeError"
    assert structure.header.error.module_path == "2"
    assert structure.operators.column_texts("name")[:2] == ["linear", "relu"]


def test_a_step_that_raises_is_written_and_raises_all_the_same(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(5, 2))
    with StructureWriter(tmp_path) as writer:
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            with writer.record_step({"model": model}, step=0):
                model(torch.zeros(1, 4))
    (record,) = [record for record in read_records(tmp_path) if record.tag == "structure/model"]
    assert Structure.decode(record.blobs).header.error.type == "RuntimeError"


def test_an_unwritable_directory_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(OSError, match=r"file' cannot be written .* give StructureWriter a directory"):
        StructureWriter(tmp_path / "file")


def test_something_else_than_a_directory_or_writer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"got int, expected a log directory or a torch.utils.tensorboard"):
        StructureWriter(3)


def test_a_directory_that_vanishes_warns_once_and_training_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    writer = StructureWriter(folder)
    folder.rmdir()
    folder.write_text("now a file")
    model = nn.Linear(2, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(3):
            with writer.record_step({"model": model}, step=step):
                model(torch.zeros(1, 2))
        writer.close()
    texts = [str(warning.message) for warning in caught if "tb_plugin_structure" in str(warning.message)]
    assert len(texts) == 1
    assert "training goes on" in texts[0]


def test_a_disabled_writer_does_nothing(tmp_path: Path) -> None:
    with StructureWriter(tmp_path / "run", enabled=False) as writer:
        assert writer.add_structure("model", nn.Linear(2, 2), torch.zeros(1, 2)) is None
        with writer.record_step({"model": nn.Linear(2, 2)}, step=0) as observation:
            assert observation is None
        writer.add_plan("teacher", "student", pins={"a": "b"})
    assert not (tmp_path / "run").exists()


def test_plans(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        writer.add_plan("teacher", "student", pins={"a": "b", "c": None}, policy="uniform")
    (record,) = read_records(tmp_path)
    assert record.tag == "plan/teacher/student"
    assert plan_pins(decode_plan(record.blobs)) == {"a": "b", "c": None}


def test_a_plan_keeps_chosen_blocks_as_align_takes_them(tmp_path: Path) -> None:
    policies = {"encoder.layer": [0, 6, 11], "decoder.layer": "last", "neck": [-1, 3], "stem": [0]}
    with StructureWriter(tmp_path) as writer:
        writer.add_plan("teacher", "student", stack_policies=policies)
    (record,) = read_records(tmp_path)
    assert plan_policies(decode_plan(record.blobs)) == policies


class Stack(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_a_plan_that_was_written_pairs_the_chosen_blocks(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        writer.add_structure("teacher", Stack(4), torch.zeros(1, 4))
        writer.add_structure("student", Stack(2), torch.zeros(1, 4))
        writer.add_plan("teacher", "student", stack_policies={"blocks": [1, 2]})
    teacher, student, stored = (record.blobs for record in read_records(tmp_path))
    plan = decode_plan(stored)
    alignment = align(
        teacher=Structure.decode(teacher),
        student=Structure.decode(student),
        policy={"": plan.policy or "copy", **plan_policies(plan)},
        pins=plan_pins(plan),
    )
    pairs = alignment.module_pairs()
    assert [pairs[f"blocks.{block}"] for block in (0, 1)] == [["blocks.1"], ["blocks.2"]]


def test_no_path_user_or_host_name_is_written(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        writer.add_structure("model", SmallAttention(), torch.zeros(1, 6, 4))
    structure = Structure.decode(read_records(tmp_path)[0].blobs)
    sources = set(structure.operators.column_texts("source"))
    assert any(source.startswith("tests/unit/writer/test_writer.py:") for source in sources)
    everything = b"".join(read_records(tmp_path)[0].blobs[:1]) + "".join(sources).encode()
    for private in (str(Path.home()), socket.gethostname(), str(Path.cwd()), str(tmp_path)):
        assert private.encode() not in everything


def test_a_quantity_of_ones_own_is_written_beside_the_structure_with_what_it_means(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with StructureWriter(tmp_path) as writer:
        structure = writer.add_structure("student", model, torch.zeros(1, 2))
        cka = Quantity("cka", "similarity to the teacher", label="CKA")
        writer.add_measurement("student", cka, {"0": 0.5, "1": torch.tensor(0.25)}, step=3)
        writer.add_measurement("student", "loss_share", {"0.weight": 2.0}, step=3, of="parameter")
        with pytest.raises(ValueError, match="of is 'layer', expected 'module' or 'parameter'"):
            writer.add_measurement("student", "x", {}, step=4, of="layer")
        with pytest.raises(ValueError, match="already written at step 3"):
            writer.add_measurement("student", cka, {"0": 0.5}, step=3)
    found = measurements_in(tmp_path)
    step, measurement = found["measurement/student//cka"][0]
    assert step == 3
    assert structure is not None
    assert measurement.header.structure_hash == structure.header.structure_hash
    assert measurement.quantity("cka") == {"0": 0.5, "1": 0.25}
    assert [(one.label, one.meaning) for one in measurement.quantities()] == [("CKA", "similarity to the teacher")]
    assert found["measurement/student//loss_share"][0][1].quantity("loss_share", subject=1) == {"0.weight": 2.0}
