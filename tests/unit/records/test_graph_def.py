"""A graph written by add_graph opens as a structure."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2, graph_pb2

from tb_plugin_structure.records.graph_def import structure_of_graph
from tb_plugin_structure.records.structure import Structure

torch = pytest.importorskip("torch")


def add_graph(folder: Path) -> None:
    from torch import nn
    from torch.utils.tensorboard import SummaryWriter

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.act = nn.ReLU()

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x + self.act(self.conv(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 1)
            self.blocks = nn.Sequential(Block(), Block())
            self.fc = nn.Linear(4, 2)

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.fc(self.blocks(self.stem(x)).mean((2, 3)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with SummaryWriter(str(folder)) as writer:
            writer.add_graph(Net(), torch.randn(1, 3, 8, 8))


def read_graph(folder: Path) -> graph_pb2.GraphDef:
    (path,) = folder.glob("*tfevents*")
    for record in event_file_loader.RawEventFileLoader(str(path)).Load():
        event = event_pb2.Event.FromString(record)
        if event.graph_def:
            return graph_pb2.GraphDef.FromString(event.graph_def)
    raise AssertionError("no graph")


def test_modules_operators_shapes_and_residual_edges(tmp_path: Path) -> None:
    add_graph(tmp_path)
    structure = Structure.decode(structure_of_graph(read_graph(tmp_path), "graph").encode())
    assert structure.header.model_class == "Net"
    calls = [structure.call_path(call) for call in range(structure.module_calls.rows)]
    assert calls == [
        "",
        "stem",
        "blocks",
        "blocks.0",
        "blocks.0.conv",
        "blocks.0.act",
        "blocks.1",
        "blocks.1.conv",
        "blocks.1.act",
        "fc",
    ]
    assert structure.call_class(4) == "Conv2d"
    names = structure.operators.column_texts("name")
    assert names == ["_convolution", "_convolution", "relu", "add", "_convolution", "relu", "add", "mean", "linear"]
    assert structure.output_shapes(3) == [("", (1, 4, 8, 8))]
    assert structure.output_shapes(0) == [("", (1, 2))]
    edges = {(source, target) for source, target, _ in structure.operator_edges.tolist()}
    # The stem feeds the convolution and, past it, the addition.
    assert {(0, 1), (0, 3), (2, 3), (3, 6)} <= edges
    assert structure.header.inputs[0].name == "x"


def test_a_graph_of_tensorflow_is_refused_with_a_sentence() -> None:
    graph = graph_pb2.GraphDef()
    graph.node.add(name="a", op="MatMul")
    with pytest.raises(ValueError, match="not written by PyTorch"):
        structure_of_graph(graph, "graph")
