"""ONNX files become structures, whichever of PyTorch's exporters wrote them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from tb_plugin_structure.capture import capture
from tb_plugin_structure.cli.importing import read_model
from tb_plugin_structure.records.onnx_graph import structure_of_onnx
from tests.unit.importers.checks import calls, check_analyses, flows, operator, stored
from tests.unit.importers.networks import Block

IMAGES = torch.zeros(2, 3, 8, 8)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.layers = nn.Sequential(Block(), Block())
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.layers(self.norm(self.stem(x))))
        return self.head(x.flatten(2).transpose(1, 2))  # type: ignore[no-any-return]


def export(model: nn.Module, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            (IMAGES,),
            str(path),
            dynamo=False,
            do_constant_folding=False,
            input_names=["images"],
            dynamic_axes={"images": {0: "batch"}},
        )


def test_scopes_of_node_names_become_module_calls(tmp_path: Path) -> None:
    export(Network(), tmp_path / "net.onnx")
    structure = stored(read_model(str(tmp_path / "net.onnx"), "student"))
    assert [path for path, _ in calls(structure)] == [
        "",
        "stem",
        "norm",
        "layers",
        "layers.0",
        "layers.0.conv",
        "layers.0.act",
        "layers.1",
        "layers.1.conv",
        "layers.1.act",
        "norm",
        "head",
    ]
    assert structure.call_class(1) == "Conv"
    assert flows(structure, operator(structure, "Add"), operator(structure, "Conv", 2))
    assert flows(structure, operator(structure, "Add"), operator(structure, "Add", 1))
    check_analyses(structure)


def test_shapes_symbols_parameters_and_costs(tmp_path: Path) -> None:
    export(Network(), tmp_path / "net.onnx")
    structure = read_model(str(tmp_path / "net.onnx"), "student")
    (described,) = structure.header.inputs
    assert (described.name, described.description) == ("images", "float32[batch, 3, 8, 8]")
    assert structure.output_shapes(1) == [("", (-1, 4, 8, 8))]
    # stem 16, two blocks of 148, norm 8, head 8; the head's weight has lost its name to a transposition.
    assert structure.header.totals.parameters == 16 + 2 * 148 + 8 + 8
    # The batch is a symbol: no number would be true.
    assert structure.header.totals.macs == 0
    assert structure.header.totals.kernels_without_formula == 4


def test_weights_are_recognised_in_the_recorded_model(tmp_path: Path) -> None:
    model = Network()
    export(model, tmp_path / "net.onnx")
    imported, recorded = read_model(str(tmp_path / "net.onnx"), "student"), capture(model, (IMAGES,))
    mine = imported.parameters.column_texts("path").index("layers.1.conv.weight")
    theirs = recorded.parameters.column_texts("path").index("layers.1.conv.weight")
    sketches = imported.parameters.values("sketch", mine), recorded.parameters.values("sketch", theirs)
    assert sketches[0].size == 64
    np.testing.assert_array_equal(*sketches)


def info(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def test_name_scopes_and_classes_in_metadata_become_modules() -> None:
    """What torch.onnx.export(dynamo=True) writes beside each node."""
    nodes = [
        helper.make_node("Gemm", ["x", "body.fc.weight"], ["h"], name="node_linear"),
        helper.make_node("Relu", ["h"], ["a"], name="node_relu"),
        helper.make_node("Add", ["a", "x"], ["y"], name="node_add"),
    ]
    scopes = [["", "body", "body.fc", "linear"], ["", "body", "relu"], ["", "add"]]
    classes = [["my.Net", "my.Body", "torch.nn.modules.linear.Linear", "aten.linear.default"]]
    classes += [["my.Net", "my.Body", "aten.relu.default"], ["my.Net", "aten.add.Tensor"]]
    for node, scope, kinds in zip(nodes, scopes, classes, strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(scope))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=str(kinds))
    weight = numpy_helper.from_array(np.eye(3, dtype=np.float32), "body.fc.weight")
    graph = helper.make_graph(
        nodes, "main_graph", [info("x", 2, 3)], [info("y", 2, 3)], [weight], value_info=[info("h", 2, 3)]
    )
    structure = stored(structure_of_onnx(helper.make_model(graph), "student"))
    assert calls(structure) == [("", -1), ("body", 0), ("body.fc", 1)]
    assert [structure.call_class(call) for call in range(3)] == ["Net", "Body", "Linear"]
    assert structure.header.totals.macs == 2 * 3 * 3


def test_a_branch_reads_values_of_the_graph_around_it() -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["h"], ["n"])], "branch", [], [info("n", 2)])
    nodes = [
        helper.make_node("Exp", ["x"], ["h"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("LSTM", ["y"], ["z"]),
    ]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "net", [info("x", 2), flag], [info("z", 2)])
    structure = stored(structure_of_onnx(helper.make_model(graph)))
    assert flows(structure, 0, 1)
    assert math.isnan(structure.operators["macs"][2])


def test_a_graph_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="no operator"):
        structure_of_onnx(helper.make_model(helper.make_graph([], "net", [info("x", 2)], [info("x", 2)])))


def test_onnx_is_the_package_that_is_tested() -> None:
    assert onnx.__version__


def graph_of(nodes: list[Any], initializers: dict[str, Any]) -> Any:
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    stored = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    return helper.make_model(helper.make_graph(nodes, "net", given, made, stored))


def test_weights_without_names_are_counted_also_where_a_module_reads_several() -> None:
    weights = {f"onnx::MatMul_{number}": np.ones((4, 4), np.float32) for number in (7, 8)}
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["q"], name="/attention/MatMul"),
        helper.make_node("MatMul", ["q", "onnx::MatMul_8"], ["y"], name="/attention/MatMul_1"),
    ]
    structure = structure_of_onnx(graph_of(nodes, weights))
    assert structure.parameters.column_texts("path") == ["attention.weight", "attention.weight_2"]
    assert structure.header.totals.parameters == 32


def test_equal_weights_that_the_exporter_keeps_once_are_one_parameter_of_two_layers() -> None:
    nodes = [
        helper.make_node("Identity", ["onnx::MatMul_7"], ["onnx::MatMul_9"], name="Identity_3"),
        helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["h"], name="/layers.0/MatMul"),
        helper.make_node("MatMul", ["h", "onnx::MatMul_9"], ["y"], name="/layers.1/MatMul"),
    ]
    structure = structure_of_onnx(graph_of(nodes, {"onnx::MatMul_7": np.ones((4, 4), np.float32)}))
    assert structure.parameters.column_texts("path") == ["layers.0.weight"]
    assert structure.operators.column_texts("name") == ["MatMul", "MatMul"]
