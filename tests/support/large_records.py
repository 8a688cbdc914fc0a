"""Log directories of the size that wears a server out: many runs, and structures of many operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import attention_pb2, structure_pb2
from tests.support.small_records import small_attention, small_structure

OPERATORS_PER_BLOCK = 10


def large_structure(name: str, operators: int, width: int = 64) -> Structure:
    """A stack of blocks, each of ten linear layers; one operator, kernel and tensor for each layer."""
    blocks = operators // OPERATORS_PER_BLOCK
    layers = blocks * OPERATORS_PER_BLOCK
    modules = ["", *(f"blocks.{block}" for block in range(blocks))]
    modules += [f"blocks.{block}.{layer}" for block in range(blocks) for layer in range(OPERATORS_PER_BLOCK)]
    block_of = np.arange(layers) // OPERATORS_PER_BLOCK
    call_parents, call_modules, begins, ends, in_, out = [-1], [0], [0], [layers], [[0]], [[layers]]
    for block in range(blocks):
        first = block * OPERATORS_PER_BLOCK
        call = len(call_modules)
        call_parents.append(0)
        call_modules.append(1 + block)
        begins.append(first)
        ends.append(first + OPERATORS_PER_BLOCK)
        in_.append([first])
        out.append([first + OPERATORS_PER_BLOCK])
        for layer in range(first, first + OPERATORS_PER_BLOCK):
            call_parents.append(call)
            call_modules.append(1 + blocks + layer)
            begins.append(layer)
            ends.append(layer + 1)
            in_.append([layer])
            out.append([layer + 1])
    calls = len(call_modules)
    rows, tensors = len(modules), layers + 1 + layers
    call_of_layer = [
        1 + (layer // OPERATORS_PER_BLOCK) * (OPERATORS_PER_BLOCK + 1) + 1 + layer % 10 for layer in range(layers)
    ]
    columns: dict[str, dict[str, Any]] = {
        "modules": {
            "path": modules,
            "aliases": [[]] * rows,
            "class_name": ["Stack", *["Block"] * blocks, *["Linear"] * layers],
            "class_module": ["torch.nn"] * rows,
            "parent": [-1, *[0] * blocks, *(1 + block_of).tolist()],
            "attribute_names": [[]] * (1 + blocks) + [["in_features", "out_features"]] * layers,
            "attribute_values": [[]] * (1 + blocks) + [[str(width), str(width)]] * layers,
            "parameters": [[]] * (1 + blocks) + [[layer] for layer in range(layers)],
            "training": [1] * rows,
            "calls": [1] * rows,
        },
        "parameters": {
            "path": [f"{path}.weight" for path in modules[1 + blocks :]],
            "aliases": [[]] * layers,
            "shape": [[width, width]] * layers,
            "dtype": ["float32"] * layers,
            "device": ["cpu"] * layers,
            "is_buffer": [0] * layers,
            "requires_grad": [1] * layers,
            "bytes": [4 * width * width] * layers,
            "sketch": [[]] * layers,
        },
        "module_calls": {
            "module": call_modules,
            "parent": call_parents,
            "ordinal": [0] * calls,
            "operator_begin": begins,
            "operator_end": ends,
            "inputs": in_,
            "input_names": [["0"]] * calls,
            "outputs": out,
            "output_names": [[""]] * calls,
            "raised": [0] * calls,
            "modified_after_return": [0] * calls,
            "duration_ns": [float("nan")] * calls,
        },
        "operators": {
            "name": ["linear"] * layers,
            "call": call_of_layer,
            "kernel_begin": list(range(layers)),
            "kernel_end": list(range(1, layers + 1)),
            "inputs": [[layer, layers + 1 + layer] for layer in range(layers)],
            "outputs": [[layer + 1] for layer in range(layers)],
            "attribute_names": [[]] * layers,
            "attribute_values": [[]] * layers,
            "source": [f"stack.py:{10 + layer % 10}" for layer in range(layers)],
            "macs": [float(8 * width * width)] * layers,
            "activation_bytes": [float(4 * 8 * width)] * layers,
            "uncertain": [0] * layers,
        },
        "kernels": {
            "name": ["aten.addmm.default"] * layers,
            "operator": list(range(layers)),
            "inputs": [[layer, layers + 1 + layer] for layer in range(layers)],
            "also_reads": [[]] * layers,
            "outputs": [[layer + 1] for layer in range(layers)],
            "arguments": ["[]"] * layers,
            "macs": [float(8 * width * width)] * layers,
        },
        "tensors": {
            "shape": [[8, width]] * (layers + 1) + [[width, width]] * layers,
            "strides": [[width, 1]] * tensors,
            "dtype": ["float32"] * tensors,
            "device": ["cpu"] * tensors,
            "layout": ["strided"] * tensors,
            "requires_grad": [1] * tensors,
            "origin": [1, *[0] * layers, *[2] * layers],
            "producer": [-1, *range(layers), *[-1] * layers],
            "parameter": [-1] * (layers + 1) + list(range(layers)),
            "name": ["0", *[""] * layers, *[f"{path}.weight" for path in modules[1 + blocks :]]],
            "storage": list(range(tensors)),
            "storage_offset": [0] * tensors,
            "bytes": [4 * 8 * width] * (layers + 1) + [4 * width * width] * layers,
        },
    }
    header = structure_pb2.StructureHeader(model=name, model_class="Stack")
    header.totals.parameters = header.totals.trainable_parameters = layers * width * width
    return Structure.build(header, columns)


def large_attention(name: str, layers: int = 12, heads: int = 12, side: int = 64) -> AttentionOverview:
    """Causal maps with random weights, one 64 x 64 plane a head."""
    random = np.random.default_rng(0)
    maps = np.tril(random.random((layers * heads, side, side), np.float32) ** 4)
    codes = (np.sqrt(maps / maps.max((1, 2), keepdims=True)) * 255).astype(np.uint8).tobytes()
    header = attention_pb2.AttentionOverviewHeader(model=name)
    header.axes.add(kind="positions", length=side)
    template = small_attention(name)[0].header.layers[0]
    for layer in range(layers):
        made = header.layers.add()
        made.CopyFrom(template)
        made.module_path, made.heads, made.key_heads = f"blocks.{layer}.attention", heads, heads
        made.query_length = made.key_length = made.overview_rows = made.overview_columns = side
        made.first_head_row, made.overview_offset = layer * heads, layer * heads * side * side
    rows = layers * heads
    one = {name: [0.5] * rows for name in small_attention(name)[0].statistics.columns}
    one |= {"layer": np.repeat(np.arange(layers), heads), "head": np.tile(np.arange(heads), layers)}
    one |= {"masked_rows": [0] * rows}
    return AttentionOverview.build(header, one, codes, codes)


def write_many_runs(folder: Path, runs: int, steps: int) -> None:
    """Small records: `runs` runs of a teacher and a student, `steps` structures and attention overviews each."""
    structures = [small_structure("teacher", hidden=4 + step % 3) for step in range(steps)]
    attention = {model: small_attention(model)[0].encode() for model in ("teacher", "student")}
    for run in range(runs):
        file = event_file.OwnEventFile(folder / f"sweep{run // 20:02}" / f"run{run:03}")
        for model in ("teacher", "student"):
            for step, structure in enumerate(structures):
                tag = names.structure_tag(model)
                file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, tag, structure.encode(), step))
                tag = names.attention_overview_tag(model)
                file.add_event(event_file.record_event(names.ATTENTION_OVERVIEW_PLUGIN, tag, attention[model], step))
        file.close()


def write_large_runs(folder: Path, runs: int, operators: int) -> None:
    """`runs` runs of one large structure and attention each; headers differ, so that nothing is cached for another."""
    structure, attention = large_structure("model", operators).encode(), large_attention("model").encode()
    for run in range(runs):
        header = structure_pb2.StructureHeader.FromString(structure[0])
        header.structure_hash = f"{run:032x}"
        blobs = [header.SerializeToString(), *structure[1:]]
        file = event_file.OwnEventFile(folder / f"run{run:02}")
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, "structure/model", blobs, run))
        file.add_event(event_file.record_event(names.ATTENTION_OVERVIEW_PLUGIN, "overview/model", attention, run))
        file.close()
