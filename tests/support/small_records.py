"""Records written out by hand, small enough to check by eye: linear(relu(linear(x)))."""

from __future__ import annotations

from typing import Any

import numpy as np

from tb_plugin_structure.records import attention
from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import attention_pb2, structure_pb2


def small_columns(hidden: int = 4) -> dict[str, dict[str, list[Any]]]:
    """Two linear layers (3 -> hidden -> 2) with a relu between, batch 5."""
    linear1, linear2 = hidden * 3 + hidden, 2 * hidden + 2
    columns: dict[str, dict[str, list[Any]]] = {
        "modules": {
            "path": ["", "first", "activation", "second"],
            "aliases": [[], [], [], []],
            "class_name": ["Small", "Linear", "ReLU", "Linear"],
            "class_module": ["tests", *["torch.nn.modules"] * 3],
            "parent": [-1, 0, 0, 0],
            "attribute_names": [[], ["in_features", "out_features"], [], ["in_features", "out_features"]],
            "attribute_values": [[], ["3", str(hidden)], [], [str(hidden), "2"]],
            "parameters": [[], [0, 1], [], [2, 3]],
            "training": [1, 1, 1, 1],
            "calls": [1, 1, 1, 1],
        },
        "parameters": {
            "path": ["first.weight", "first.bias", "second.weight", "second.bias"],
            "aliases": [[]] * 4,
            "shape": [[hidden, 3], [hidden], [2, hidden], [2]],
            "dtype": ["float32"] * 4,
            "device": ["cpu"] * 4,
            "is_buffer": [0] * 4,
            "requires_grad": [1] * 4,
            "bytes": [hidden * 12, hidden * 4, hidden * 8, 8],
            "sketch": [[0.5, -0.25], [], [0.125, 1.0], []],
        },
        "module_calls": {
            "module": [0, 1, 2, 3],
            "parent": [-1, 0, 0, 0],
            "ordinal": [0, 0, 0, 0],
            "operator_begin": [0, 0, 1, 2],
            "operator_end": [3, 1, 2, 3],
            "inputs": [[0], [0], [1], [2]],
            "input_names": [["0"]] * 4,
            "outputs": [[3], [1], [2], [3]],
            "output_names": [[""]] * 4,
            "raised": [0] * 4,
            "modified_after_return": [0] * 4,
            "duration_ns": [float("nan")] * 4,
        },
        "operators": {
            "name": ["linear", "relu", "linear"],
            "call": [1, 2, 3],
            "kernel_begin": [0, 1, 2],
            "kernel_end": [1, 2, 3],
            "inputs": [[0, 4, 5], [1], [2, 6, 7]],
            "outputs": [[1], [2], [3]],
            "attribute_names": [[]] * 3,
            "attribute_values": [[]] * 3,
            "source": ["small.py:3", "small.py:4", "small.py:5"],
            "macs": [5.0 * 3 * hidden, 0.0, 5.0 * 2 * hidden],
            "activation_bytes": [20.0 * hidden, 20.0 * hidden, 40.0],
            "uncertain": [0] * 3,
        },
        "kernels": {
            "name": ["aten.addmm.default", "aten.relu.default", "aten.addmm.default"],
            "operator": [0, 1, 2],
            "inputs": [[5, 0, 4], [1], [7, 2, 6]],
            "also_reads": [[]] * 3,
            "outputs": [[1], [2], [3]],
            "arguments": ["[]"] * 3,
            "macs": [15.0 * hidden, 0.0, 10.0 * hidden],
        },
        "tensors": {
            "shape": [[5, 3], [5, hidden], [5, hidden], [5, 2], [hidden, 3], [hidden], [2, hidden], [2]],
            "strides": [[3, 1], [hidden, 1], [hidden, 1], [2, 1], [3, 1], [1], [hidden, 1], [1]],
            "dtype": ["float32"] * 8,
            "device": ["cpu"] * 8,
            "layout": ["strided"] * 8,
            "requires_grad": [0, 1, 1, 1, 1, 1, 1, 1],
            "origin": [1, 0, 0, 0, 2, 2, 2, 2],
            "producer": [-1, 0, 1, 2, -1, -1, -1, -1],
            "parameter": [-1, -1, -1, -1, 0, 1, 2, 3],
            "name": ["0", "", "", "", "first.weight", "first.bias", "second.weight", "second.bias"],
            "storage": list(range(8)),
            "storage_offset": [0] * 8,
            "bytes": [60, 20 * hidden, 20 * hidden, 40, 12 * hidden, 4 * hidden, 8 * hidden, 8],
        },
    }
    assert sum((linear1, linear2)) == 6 * hidden + 2
    assert set(columns) == set(STRUCTURE_TABLES)
    return columns


def small_structure(name: str = "teacher", hidden: int = 4, **header: Any) -> Structure:
    proto = structure_pb2.StructureHeader(model=name, model_class="Small", **header)
    proto.totals.parameters = proto.totals.trainable_parameters = 6 * hidden + 2
    proto.totals.macs = 25.0 * hidden
    return Structure.build(proto, small_columns(hidden), {"hidden": hidden})


def measured_structure(name: str = "teacher", hidden: int = 4) -> Structure:
    """The same with everything that a record may hold besides: time, memory, symbolic dimensions, ranks."""
    structure = small_structure(name, hidden)
    structure.set_columns("module_calls", {"peak_bytes": [60.0, 20.0, 20.0, float("nan")]})
    structure.set_columns("operators", {"duration_ns": [900.0, 100.0, 400.0], "saved_bytes": [60.0, 80.0, 80.0]})
    placement = ["Shard(dim=0) over 2 (tp)", "", "", ""]
    local = [[hidden // 2, 3], [], [], []]
    structure.set_columns("parameters", {"placement": placement, "local_shape": local})
    symbolic = [["B", "3"], ["B", str(hidden)], ["B", "(2*H+1)//2"], ["B", "2"], *[[]] * 4]
    structure.set_columns(
        "tensors", {"symbolic": symbolic, "placement": [*[""] * 4, *placement], "local_shape": [*[[]] * 4, *local]}
    )
    found = structure.header.symbolic
    found.dimensions.add(name="B", input="0", dimension=0, size=5, expression="B")
    found.dimensions.add(name="H", input="0", dimension=1, size=3, expression="3")
    found.conditions.append("H % 3 == 0")
    found.known_tensors = 4
    return structure


def small_attention(model: str) -> tuple[attention.AttentionOverview, list[bytes]]:
    """One layer of two heads over three positions: head 0 looks at itself, head 1 at the first key."""
    maps = np.stack([np.eye(3), np.eye(3)[[0, 0, 0]]]).astype(np.float32)
    header = attention_pb2.AttentionOverviewHeader(model=model)
    header.axes.add(kind="text", length=3, tokens=["a", "b", "c"])
    header.layers.add(
        module_path="attention",
        heads=2,
        key_heads=2,
        query_length=3,
        key_length=3,
        relation="self",
        route=attention_pb2.ATTENTION_ROUTE_SOFTMAX_MATMUL,
        dtype="float32",
        mask="none",
        overview_rows=3,
        overview_columns=3,
        exactness="exact",
    )
    codes = (maps * 255).astype(np.uint8).tobytes()
    statistics = {
        "layer": [0, 0],
        "head": [0, 1],
        "entropy": [0.0, 0.0],
        "normalized_entropy": [0.0, 0.0],
        "distance": [0.0, 1.0],
        "sink_mass": [1 / 3, 1.0],
        "diagonal_mass": [1.0, 1 / 3],
        "previous_mass": [0.0, 0.5],
        "maximum": [1.0, 1.0],
        "top1_mass": [1.0, 1.0],
        "masked_rows": [0, 0],
        "row_sum_error": [0.0, 0.0],
        "maximum_scale": [1.0, 1.0],
        "mass_scale": [1.0, 1.0],
    }
    overview = attention.AttentionOverview.build(header, statistics, codes, codes)
    detail = attention_pb2.AttentionDetailHeader(model=model)
    detail.details.add(
        module_path="attention",
        query_length=3,
        key_length=3,
        codec=attention_pb2.ATTENTION_CODEC_MATRIX_F16,
        heads=[1],
        first_blob=1,
    )
    return overview, attention.encode_detail(detail, [attention.encode_matrix(maps[1])])
