"""Models of any number of operators, recorded without computing, in the format of each tool that is compared.

All tools get one and the same graph: what our record holds, written as TensorBoard's `GraphDef` (module paths are name
scopes) and as Model Explorer's JSON (module paths are namespaces). So none is judged by another tracer's nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tensorboard.compat.proto import event_pb2, graph_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch import Tensor, nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.cli.event_files import EventFiles
from tb_plugin_structure.records.structure import Structure

WIDTH, HEADS, TOKENS = 64, 4, 16


class Attention(nn.Module):
    """Attention as it is written by hand: every product and softmax is an operator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (
            made.view(batch, tokens, HEADS, -1).transpose(1, 2) for made in (self.query(x), self.key(x), self.value(x))
        )
        weights = (q @ k.transpose(-1, -2) / 4.0).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, WIDTH))


class Block(nn.Module):
    """One pre-norm transformer block with its two residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.attention, self.norm_2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class DeepTransformer(nn.Module):
    """As many blocks as it takes."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, 1000)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def deep_transformer(operators: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model that runs about this many operators, on the meta device, with its input."""
    with torch.device("meta"):
        return DeepTransformer(round(operators / 25)).eval(), (torch.zeros(1, TOKENS, dtype=torch.long),)


def gpt2() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """GPT-2 small with its default configuration; no download. Really run: it looks at the values of its masks."""
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(attn_implementation="eager", use_cache=False)).eval()
    return model, (torch.zeros(1, 128, dtype=torch.long),)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "GPT-2": gpt2,
    "5,000 operators": lambda: deep_transformer(5_000),
    "50,000 operators": lambda: deep_transformer(50_000),
    "100,000 operators": lambda: deep_transformer(100_000),
}


def recorded(name: str, folder: Path) -> Path:
    """The log directory of a model, recorded when it is not there yet: our record, a `GraphDef`, and `model.json`."""
    logdir = folder / name.replace(",", "").replace(" ", "-").lower()
    if not (logdir / "model.json").exists():
        model, inputs = MODELS[name]()
        with StructureWriter(logdir / "run") as writer, torch.no_grad():
            writer.add_structure("model", model, inputs)
        _, structure = EventFiles.read(logdir).find("model")
        write_graph_def(structure, logdir / "graph")
        write_model_explorer(structure, logdir / "model.json")
    return logdir


def operator_names(structure: Structure) -> list[str]:
    """For each operator ``path/to/module/name_number``, unique in the model."""
    calls = structure.operators["call"].tolist()
    modules = structure.module_calls["module"].tolist()
    names = structure.operators.column_texts("name")
    return [
        "/".join([*structure.module_paths[modules[call]].split("."), f"{name.strip('_')}_{row}"]).lstrip("/")
        for row, (call, name) in enumerate(zip(calls, names, strict=True))
    ]


def data_flow(structure: Structure) -> Iterator[list[int]]:
    """For each operator the operators whose results it reads."""
    maker: dict[int, int] = {}
    inputs, outputs = structure.operators.column_lists("inputs"), structure.operators.column_lists("outputs")
    for row, (reads, makes) in enumerate(zip(inputs, outputs, strict=True)):
        yield [maker[tensor] for tensor in reads if tensor in maker]
        for tensor in makes:
            maker.setdefault(tensor, row)


def write_graph_def(structure: Structure, logdir: Path) -> None:
    """The event file of a run with the operators as TensorBoard's own Graphs tab reads them."""
    names = operator_names(structure)
    graph = graph_pb2.GraphDef()
    graph.versions.producer = 22
    outputs = structure.operators.column_lists("outputs")
    for row, reads in enumerate(data_flow(structure)):
        node = graph.node.add(name=names[row], op=names[row].rpartition("/")[2].rpartition("_")[0])
        node.input.extend(names[source] for source in dict.fromkeys(reads))
        shapes = node.attr["_output_shapes"].list
        for tensor in outputs[row][:1]:
            shape = shapes.shape.add()
            for size in structure.tensors.values("shape", tensor).tolist():
                shape.dim.add(size=size)
    writer = EventFileWriter(str(logdir))
    writer.add_event(event_pb2.Event(graph_def=graph.SerializeToString()))
    writer.close()


def write_model_explorer(structure: Structure, path: Path) -> None:
    """The operators as Model Explorer's JSON."""
    names = operator_names(structure)
    outputs = structure.operators.column_lists("outputs")
    nodes: list[dict[str, Any]] = []
    for row, reads in enumerate(data_flow(structure)):
        namespace, _, label = names[row].rpartition("/")
        sizes = [structure.tensors.values("shape", tensor).tolist() for tensor in outputs[row][:1]]
        nodes.append(
            {
                "id": str(row),
                "label": label.rpartition("_")[0],
                "namespace": namespace,
                "incomingEdges": [
                    {"sourceNodeId": str(source), "sourceNodeOutputId": "0", "targetNodeInputId": str(position)}
                    for position, source in enumerate(dict.fromkeys(reads))
                ],
                "outputsMetadata": [
                    {"id": "0", "attrs": [{"key": "tensor_shape", "value": str(shape)}]} for shape in sizes
                ],
            }
        )
    path.write_text(json.dumps({"label": path.parent.name, "graphs": [{"id": "main", "nodes": nodes}]}))
