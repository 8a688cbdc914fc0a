"""What a report hands over: the message, files, hooks, adapters and configurations."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch

from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.analysis.audit.configurations import FRAMEWORKS
from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.schema import AUDIT_ROWS, AUDIT_STAGES
from tb_plugin_structure.records.strings import Strings
from tb_plugin_structure.records.table import Table
from tb_plugin_structure.v1 import audit_pb2

from .pairing import pair_by_path
from .small_models import ConvNet, VisionTransformer


@pytest.fixture(scope="module")
def report() -> AuditReport:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 32, 32)
    teacher = capture(ConvNet((16, 24)).eval(), (image,), name="large, |piped|")
    student = capture(ConvNet((8, 12), blocks=1).eval(), (image,), name="small")
    return audit(pair_by_path(teacher, student, {"stages.0.0": "stages.0.1", "stages.1.0": "stages.1.1"}))


def test_the_message_decodes_to_the_declared_columns(report: AuditReport) -> None:
    message = audit_pb2.Audit.FromString(report.to_proto().SerializeToString())
    strings = Strings(message.strings)
    rows = Table.from_proto(message.rows, strings, AUDIT_ROWS)
    stages = Table.from_proto(message.stages, strings, AUDIT_STAGES)
    assert rows.rows == len(report.rows)
    place = rows.column_texts("student_path").index("stages.1")
    assert rows["verdict"][place] == audit_pb2.VERDICT_ADAPT
    assert rows.values("teacher_shape", place).tolist() == [2, 24, 8, 8]
    assert rows.values("student_shape", place).tolist() == [2, 12, 8, 8]
    assert rows.texts("student_dimensions", place) == ["batch", "channels", "height", "width"]
    assert rows.texts("student_sizes", place) == ["batch 2", "channels 12", "height 8", "width 8"]
    assert rows.text("adapter", place) == "Conv1x1(12->24)"
    assert rows.text("adapter_code", place) == "nn.Conv2d(12, 24, kernel_size=1, bias=False)"
    assert rows["adapter_parameters"][place] == 288
    assert rows.text("student_layout", place) == "NCHW"
    assert stages.column_texts("stage") == [stage.stage for stage in report.stages]
    assert message.summary == report.summary()


def test_a_row_of_one_side_has_nothing_on_the_other(report: AuditReport) -> None:
    row = next(row for row in report.rows if row.student is None)
    assert row.cause == "only in the teacher"
    assert row.student_parameters != row.student_parameters  # not a number
    assert json.loads(report.to_json())["rows"][report.rows.index(row)]["student_parameters"] is None


def test_rows_follow_the_students_execution_order(report: AuditReport) -> None:
    calls = [row.pair.student for row in report.rows if row.pair.student >= 0]
    assert calls == sorted(calls)


def test_markdown_keeps_its_columns_when_a_cell_holds_a_bar(report: AuditReport) -> None:
    text = report.to_markdown("leaf")
    table = text[text.index("## Pairs") :].splitlines()[2:]
    columns = {line.replace("\\|", "").count("|") for line in table if line}
    assert columns == {10}


def test_csv_has_every_row_and_column(report: AuditReport) -> None:
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert len(rows) == len(report.rows)
    assert list(rows[0]) == [field.name for field in AUDIT_ROWS]
    assert {row["level"] for row in rows} == {"model", "stage", "block", "leaf"}


def test_hooks_unpack_as_paths_and_element(report: AuditReport) -> None:
    found = [(teacher, student, element) for teacher, student, element in report.hooks("main")]
    assert found == [("stages.0", "stages.0", ""), ("stages.1", "stages.1", "")]
    hook = report.hooks(paths=["stages.1.0"])[0]
    assert (hook.teacher_path, hook.student_call, hook.level) == ("stages.1.1", 0, "block")


def test_blocks_are_the_main_features_of_a_transformer() -> None:
    image = torch.randn(2, 3, 32, 32)
    records = [
        capture(VisionTransformer(width, 2).eval(), (image,), name=name) for width, name in ((24, "t"), (16, "s"))
    ]
    report = audit(pair_by_path(*records))
    assert [hook.student_path for hook in report.hooks("main")] == ["blocks.0", "blocks.1"]


def test_adapters_by_level_and_by_path(report: AuditReport) -> None:
    assert list(report.adapters(level="main")) == ["stages/0", "stages/1"]
    assert list(report.adapters(paths=["stages.1.0.conv1"])) == ["stages/1/0/conv1"]
    everything = report.adapters()
    assert "stages/0/0/conv2" in everything
    assert "" not in everything


def test_adapters_can_be_made_elsewhere_and_are_limited(report: AuditReport) -> None:
    from tb_plugin_structure.distill import build_adapters

    made = report.adapters(level="main", device="meta", dtype=torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in made.parameters()} == {("meta", torch.bfloat16)}
    with pytest.raises(ValueError, match="more than 100; select pairs"):
        build_adapters(report, maximum_parameters=100)


def test_wrong_choices_say_what_there_is(report: AuditReport) -> None:
    with pytest.raises(ValueError, match="expected one of model, stage, block, leaf"):
        report.hooks("layer")
    with pytest.raises(KeyError, match=r"nearest: stages\.1"):
        report.hooks(paths=["stage.1"])
    with pytest.raises(ValueError, match="expected one of torchdistill"):
        report.configuration("tensorflow")


def test_configurations_name_both_sides(report: AuditReport) -> None:
    for framework in FRAMEWORKS:
        assert json.dumps(str(report.configuration(framework, "main")))
    mmrazor = report.configuration("mmrazor")["distiller"]
    assert mmrazor["student_recorders"]["stages_1"] == {"type": "ModuleOutputs", "source": "stages.1"}
    assert mmrazor["connectors"]["stages_1_connector"]["in_channel"] == 12
    assert mmrazor["connectors"]["stages_1_connector"]["out_channel"] == 24
    term = report.configuration("torchdistill")["criterion"]["kwargs"]["sub_terms"]["stages_1"]
    assert term["criterion_wrapper"]["kwargs"]["target"]["module_path"] == "stages.1"
    assert report.configuration("modelopt")["criterion"]["stages.1", "stages.1"] == "MSELoss()"


def test_textbrewer_counts_hidden_states_from_the_embeddings() -> None:
    """Block i is hidden state i + 1: student block 3 with teacher block 11 is layer_S 4, layer_T 12."""
    import transformers

    def bert(width: int, layers: int) -> object:
        config = transformers.BertConfig(
            vocab_size=99, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=32
        )
        ids = torch.zeros(1, 6, dtype=torch.long)
        return capture(transformers.BertModel(config).eval(), (ids,), name=f"bert{width}")

    pins = {f"encoder.layer.{block}": f"encoder.layer.{3 * block + 2}" for block in range(4)}
    report = audit(pair_by_path(bert(24, 12), bert(16, 4), pins))
    matches = report.configuration("textbrewer", "block")["intermediate_matches"]
    assert [(match["layer_T"], match["layer_S"]) for match in matches] == [(3, 1), (6, 2), (9, 3), (12, 4)]
    assert {tuple(match["proj"]) for match in matches} == {("linear", 16, 24)}


def test_memory_of_training_llama_8b_beside_70b_in_bfloat16() -> None:
    """Published sizes: 70.55 and 8.03 billion parameters of 2 bytes; AdamW keeps 8 bytes a parameter."""
    from tb_plugin_structure.analysis.audit.memory import training_memory
    from tb_plugin_structure.v1 import structure_pb2

    teacher = structure_pb2.Totals(parameters=70_553_706_496, parameter_bytes=2 * 70_553_706_496)
    student = structure_pb2.Totals(
        parameters=8_030_261_248, trainable_parameters=8_030_261_248, parameter_bytes=2 * 8_030_261_248
    )
    text = training_memory(teacher, student).text()
    assert "teacher weights 141.1 GB, student weights 16.1 GB, gradients 16.1 GB, AdamW states 64.2 GB" in text
