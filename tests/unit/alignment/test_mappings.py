"""Mappings of other tools, read as pins and written from an alignment."""

from __future__ import annotations

import json

import pytest

from tb_plugin_structure.analysis.alignment import FORMATS, MappingError, align, export_mapping, import_mapping
from tests.unit.alignment.networks import encoder, record, residual_network

TEACHER, STUDENT = record(encoder(6), "teacher"), record(encoder(3), "student")


@pytest.mark.parametrize("format", ["torchdistill", "textbrewer", "mmrazor", "modelopt"])
def test_what_is_written_is_read_back_as_pins_on_the_same_blocks(format: str) -> None:
    alignment = align(teacher=TEACHER, student=STUDENT, policy="uniform")
    written = json.loads(json.dumps(export_mapping(alignment, format)))
    pins = import_mapping(written, format, TEACHER, STUDENT)
    assert pins == {"blocks.0": "blocks.1", "blocks.1": "blocks.3", "blocks.2": "blocks.5"}
    again = align(teacher=TEACHER, student=STUDENT, policy="copy", pins=pins)
    assert list(again.stacks[0].indices) == [1, 3, 5]


def test_our_own_json_keeps_pins_policy_and_every_pair() -> None:
    pins = {"blocks.0": "blocks.2", "norm": None}
    alignment = align(teacher=TEACHER, student=STUDENT, pins=pins)
    written = json.loads(json.dumps(export_mapping(alignment, "json")))
    assert import_mapping(written, "json", TEACHER, STUDENT) == pins
    assert written["policy"] == "copy"
    assert {"student": "head", "teacher": "head", "kind": "identical"}.items() <= next(
        pair for pair in written["pairs"] if pair["student"] == "head"
    ).items()


def test_torchdistill_paths_with_negative_indices_wrappers_and_adapters() -> None:
    teacher, student = record(residual_network((3, 4, 6))), record(residual_network((2, 2, 2)))

    def term(student_path: str, teacher_path: str) -> dict[str, object]:
        return {
            "criterion_wrapper": {
                "kwargs": {
                    "input": {"is_from_teacher": False, "module_path": student_path, "io": "output"},
                    "target": {"is_from_teacher": True, "module_path": teacher_path, "io": "output"},
                }
            }
        }

    config = {
        "train": {
            "criterion": {
                "kwargs": {
                    "sub_terms": {
                        "a": term("student_model.layer1.-1", "layer1.-1"),
                        "b": term(".", "."),
                        "c": term("+regressor", "layer2"),
                    }
                }
            }
        }
    }
    assert import_mapping(config, "torchdistill", teacher, student) == {"layer1.1": "layer1.2", "": ""}


def test_textbrewer_counts_the_embedding_as_hidden_0() -> None:
    matches = [
        {"layer_T": 0, "layer_S": 0, "feature": "hidden", "loss": "hidden_mse"},
        {"layer_T": 4, "layer_S": 2, "feature": "hidden", "loss": "hidden_mse", "proj": ["linear", 16, 16]},
        {"layer_T": 5, "layer_S": 2, "feature": "attention", "loss": "attention_mse"},
        {"layer_T": [0, 1], "layer_S": [0, 1], "feature": "hidden", "loss": "gram"},
    ]
    assert import_mapping(matches, "textbrewer", TEACHER, STUDENT) == {"blocks.1": "blocks.3", "blocks.2": "blocks.5"}


def test_modelopt_criterion_keys_name_the_student_first() -> None:
    criterion = {("blocks.2", "blocks.4"): "mse", ("norm", "norm"): "mse"}
    assert import_mapping(criterion, "modelopt", TEACHER, STUDENT) == {"blocks.2": "blocks.4", "norm": "norm"}


def test_model_explorer_entries_name_a_node_once() -> None:
    fused = record(encoder(2, fused=True), "fused")
    separate = record(encoder(2), "separate")
    written = export_mapping(align(teacher=fused, student=separate), "model_explorer")
    entry = next(entry for entry in written["mappingEntries"] if "blocks.0.attention.qkv" in entry["leftNodeIds"])
    assert entry["rightNodeIds"] == [f"blocks.0.attention.{part}" for part in ("query", "key", "value")]
    left = [node for entry in written["mappingEntries"] for node in entry["leftNodeIds"]]
    assert len(left) == len(set(left))
    pins = import_mapping(written, "model_explorer", fused, separate)
    assert pins["blocks.1.attention.key"] == "blocks.1.attention.qkv"


def test_chosen_paths_and_what_has_no_counterpart() -> None:
    alignment = align(teacher=TEACHER, student=STUDENT, pins={"norm": None})
    assert export_mapping(alignment, "modelopt", ["head"]) == [["head", "head"]]
    with pytest.raises(MappingError, match="no counterpart for 'norm'; pin it or leave it out"):
        export_mapping(alignment, "modelopt", ["norm"])


@pytest.mark.parametrize(
    ("data", "format", "message"),
    [
        ({}, "keras", f"no mapping format 'keras'; use {', '.join(FORMATS)}"),
        ({"format": "other"}, "json", "expected 'format'"),
        ({"sub_terms": {}}, "torchdistill", "no loss with 'input' and 'target'"),
        ([{"layer_T": 9, "layer_S": 1}], "textbrewer", "lie beyond the 6 and 3 blocks"),
        ([["blocks.7", "blocks.1"]], "modelopt", "the student has no module 'blocks.7'"),
        ({"loss_forward_mappings": {}}, "mmrazor", "this is no mmrazor mapping: KeyError"),
    ],
)
def test_a_mapping_that_does_not_fit_says_why(data: object, format: str, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        import_mapping(data, format, TEACHER, STUDENT)


def test_whole_configurations_are_read_as_well_as_the_part_that_holds_the_pairs() -> None:
    teacher, student = record(encoder(12)), record(encoder(4))
    match = {"layer_T": 3, "layer_S": 1, "feature": "hidden", "loss": "hidden_mse", "weight": 1}
    for brewer in ([match], {"temperature": 8, "intermediate_matches": [match]}):
        assert import_mapping(brewer, "textbrewer", teacher, student) == {"blocks.0": "blocks.2"}
    distiller = {
        "student_recorders": {"norm": {"type": "ModuleOutputs", "source": "norm"}},
        "teacher_recorders": {"norm": {"type": "ModuleOutputs", "source": "norm"}},
        "connectors": {"wider": {"type": "ConvModuleConnector", "in_channel": 8, "out_channel": 16}},
        "loss_forward_mappings": {
            "loss": {
                "s_feature": {"from_student": True, "recorder": "norm", "connector": "wider"},
                "t_feature": {"from_student": False, "recorder": "norm"},
            }
        },
    }
    for razor in (distiller, {"type": "SingleTeacherDistill", "distiller": distiller}):
        assert import_mapping(razor, "mmrazor", teacher, student) == {"norm": "norm"}


@pytest.mark.parametrize(("data", "format"), [({}, "model_explorer"), ({}, "modelopt"), ([], "textbrewer")])
def test_a_mapping_without_a_pair_is_refused(data: object, format: str) -> None:
    with pytest.raises(MappingError, match="holds no pair"):
        import_mapping(data, format, record(encoder(4)), record(encoder(2)))


def test_mmrazor_gets_a_connector_where_widths_differ() -> None:
    teacher = record(residual_network((2, 2), widths=(16, 32)))
    student = record(residual_network((2, 2), widths=(8, 32)))
    written = json.loads(
        json.dumps(export_mapping(align(teacher=teacher, student=student), "mmrazor", ["conv1", "fc"]))
    )
    distiller = written["distiller"]
    assert distiller["type"] == "ConfigurableDistiller"
    assert distiller["connectors"] == {
        "conv1_connector": {
            "type": "ConvModuleConnector",
            "in_channel": 8,
            "out_channel": 16,
            "bias": False,
            "act_cfg": None,
        }
    }
    assert distiller["loss_forward_mappings"]["loss_conv1"]["s_feature"] == {
        "from_student": True,
        "recorder": "conv1",
        "connector": "conv1_connector",
    }
    assert "connector" not in distiller["loss_forward_mappings"]["loss_fc"]["s_feature"]  # as many classes
    assert import_mapping(written, "mmrazor", teacher, student) == {"conv1": "conv1", "fc": "fc"}


def test_mmrazor_makes_tokens_wider_by_a_linear_layer() -> None:
    teacher, student = record(encoder(4, width=16)), record(encoder(2, width=8))
    distiller = export_mapping(align(teacher=teacher, student=student), "mmrazor")["distiller"]
    assert distiller["connectors"]["blocks_1_connector"] == {
        "type": "TorchNNConnector",
        "module_name": "Linear",
        "module_args": {"in_features": 8, "out_features": 16, "bias": False},
    }


def test_mmrazor_is_not_given_what_differs_in_more_than_width() -> None:
    teacher, student = record(residual_network((2, 2), (16, 32))), record(residual_network((2, 2), (16, 32)))
    alignment = align(teacher=teacher, student=student, pins={"layer1.0": "layer2.0"})
    written = export_mapping(alignment, "mmrazor", ["layer1.0", "fc"])
    assert list(written["distiller"]["student_recorders"]) == ["fc"]
    assert written["not expressible"] == {
        "layer1.0": "more than the width differs: [2, 16, 32, 32] in the student, [2, 32, 16, 16] in the teacher"
    }
