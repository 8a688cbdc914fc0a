"""Small records written by hand: a module tree that runs in registration order, without torch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2


@dataclass
class Part:
    """A module: its calls follow the order of `parts`; `called=False` makes it a container, `fan=True` gives its own
    input to each of its parts."""

    name: str
    class_name: str
    parts: list[Part] = field(default_factory=list)
    out: tuple[int, ...] = ()
    weight: tuple[int, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    called: bool = True
    seed: int | None = None
    fan: bool = False


def linear(name: str, width: int, out: int, tokens: int = 8, seed: int | None = None) -> Part:
    attributes = {"in_features": str(width), "out_features": str(out)}
    return Part(name, "Linear", out=(2, tokens, out), weight=(out, width), attributes=attributes, seed=seed)


def norm(name: str, width: int, tokens: int = 8) -> Part:
    return Part(name, "LayerNorm", out=(2, tokens, width), weight=(width,))


def convolution(name: str, width: int, out: int, side: int, kernel: int = 3, stride: int = 1) -> Part:
    attributes = {"kernel_size": f"({kernel}, {kernel})", "stride": f"({stride}, {stride})", "groups": "1"}
    return Part(name, "Conv2d", out=(2, out, side, side), weight=(out, width, kernel, kernel), attributes=attributes)


def batch_norm(name: str, width: int, side: int) -> Part:
    return Part(name, "BatchNorm2d", out=(2, width, side, side), weight=(width,))


def activation(name: str, shape: tuple[int, ...], class_name: str = "GELU") -> Part:
    return Part(name, class_name, out=shape)


def encoder_block(name: str, width: int, hidden: int, fused: bool = False, seed: int | None = None) -> Part:
    """A transformer block: attention (separate or fused projections) and a two-layer network."""
    if fused:
        projections = [linear("qkv", width, 3 * width, seed=seed)]
    else:
        projections = [
            linear(part, width, width, seed=None if seed is None else 10 * seed + k)
            for k, part in enumerate(("query", "key", "value"))
        ]
    attention = Part("attention", "Attention", [*projections, linear("output", width, width)], out=(2, 8, width))
    network = Part(
        "mlp",
        "Mlp",
        [linear("fc1", width, hidden), activation("act", (2, 8, hidden)), linear("fc2", hidden, width)],
        out=(2, 8, width),
    )
    return Part(name, "Block", [norm("norm1", width), attention, norm("norm2", width), network], out=(2, 8, width))


def encoder(depth: int, width: int = 16, hidden: int = 64, fused: bool = False, seeds: Sequence[int] = ()) -> Part:
    """Embedding, a stack of blocks, a final norm and a head."""
    blocks = [encoder_block(str(k), width, hidden, fused, seeds[k] if seeds else None) for k in range(depth)]
    return Part(
        "",
        "Encoder",
        [
            Part("embed", "Embedding", out=(2, 8, width), weight=(100, width)),
            Part("blocks", "ModuleList", blocks, called=False),
            norm("norm", width),
            linear("head", width, 10),
        ],
        out=(2, 8, 10),
    )


def residual_network(counts: Sequence[int], widths: Sequence[int] = (16, 32, 64, 128)) -> Part:
    """A stem, stages of residual blocks that halve the resolution, pooling and a classifier."""
    side, width = 32, widths[0]
    parts = [
        convolution("conv1", 3, width, side),
        batch_norm("bn1", width, side),
        activation("relu", (2, width, side, side), "ReLU"),
    ]
    for stage, (count, out) in enumerate(zip(counts, widths, strict=False), 1):
        stride = 1 if stage == 1 else 2
        side //= stride
        blocks = []
        for k in range(count):
            inner = [
                convolution("conv1", width, out, side, 3, stride if k == 0 else 1),
                batch_norm("bn1", out, side),
                activation("relu", (2, out, side, side), "ReLU"),
                convolution("conv2", out, out, side),
                batch_norm("bn2", out, side),
            ]
            if width != out:
                inner.append(
                    Part(
                        "downsample",
                        "Sequential",
                        [convolution("0", width, out, side, 1, stride), batch_norm("1", out, side)],
                        out=(2, out, side, side),
                    )
                )
            blocks.append(Part(str(k), "BasicBlock", inner, out=(2, out, side, side)))
            width = out
        parts.append(Part(f"layer{stage}", "Sequential", blocks, out=(2, out, side, side)))
    parts += [
        Part("avgpool", "AdaptiveAvgPool2d", out=(2, width, 1, 1)),
        Part("fc", "Linear", out=(2, 10), weight=(10, width)),
    ]
    return Part("", "ResNet", parts, out=(2, 10))


def record(root: Part, name: str = "model", repeat: Mapping[str, int] | None = None) -> Structure:
    """The record of one pass in which every called module runs once, each on what the one before it returned.

    Args:
        root: The model.
        name: Its name.
        repeat: Path of a module -> how often it is called in a row.
    """
    repeats = repeat or {}
    columns: dict[str, dict[str, list[Any]]] = {
        table: {column.name: [] for column in fields if not column.optional}
        for table, fields in STRUCTURE_TABLES.items()
    }

    def add(table: str, **values: Any) -> int:
        for column, listed in columns[table].items():
            if column not in values:
                raise KeyError(f"{table}.{column}")
            listed.append(values[column])
        return len(columns[table][next(iter(values))]) - 1

    def tensor(shape: tuple[int, ...]) -> int:
        return add(
            "tensors", shape=list(shape), strides=[], dtype="float32", device="cpu", layout="strided",
            requires_grad=0, origin=1, producer=-1, parameter=-1, name="", storage=len(columns["tensors"]["shape"]),
            storage_offset=0, bytes=0,
        )  # fmt: skip

    def modules(part: Part, path: str, parent: int) -> None:
        rows = []
        if part.weight:
            generator = None if part.seed is None else random.Random(part.seed)
            sketch = [] if generator is None else [generator.gauss(0, 1) for _ in range(64)]
            elements = 1
            for size in part.weight:
                elements *= size
            rows.append(
                add(
                    "parameters",
                    path=f"{path}.weight",
                    aliases=[],
                    shape=list(part.weight),
                    dtype="float32",
                    device="cpu",
                    is_buffer=0,
                    requires_grad=1,
                    bytes=4 * elements,
                    sketch=sketch,
                )
            )
        row = add(
            "modules", path=path, aliases=[], class_name=part.class_name, class_module="", parent=parent,
            attribute_names=list(part.attributes), attribute_values=list(part.attributes.values()), parameters=rows,
            training=0, calls=int(part.called),
        )  # fmt: skip
        for child in part.parts:
            modules(child, f"{path}.{child.name}" if path else child.name, row)

    modules(root, "", -1)
    module_row = {path: row for row, path in enumerate(columns["modules"]["path"])}

    def calls(part: Part, path: str, parent: int, given: int) -> int:
        value = given
        for ordinal in range(repeats.get(path, 1)):
            value = call(part, path, parent, value, ordinal)
        return value

    def call(part: Part, path: str, parent: int, given: int, ordinal: int) -> int:
        row = parent
        if part.called:
            row = add(
                "module_calls", module=module_row[path], parent=parent, ordinal=ordinal, operator_begin=0,
                operator_end=0, inputs=[given], input_names=["0"], outputs=[], output_names=[], raised=0,
                modified_after_return=0, duration_ns=float("nan"),
            )  # fmt: skip
        value = given
        fan = part.class_name == "Attention"
        for place, child in enumerate(part.parts):
            source = given if part.fan or (fan and place < len(part.parts) - 1) else value
            value = calls(child, f"{path}.{child.name}" if path else child.name, row, source)
        if part.called:
            value = tensor(part.out)
            columns["module_calls"]["outputs"][row] = [value]
            columns["module_calls"]["output_names"][row] = [""]
        return value

    calls(root, "", -1, tensor((2, 8)))
    header = structure_pb2.StructureHeader(model=name, model_class=root.class_name)
    header.totals.parameters = sum(size // 4 for size in columns["parameters"]["bytes"])
    return Structure.build(header, columns)


def leaf_paths(structure: Structure) -> list[str]:
    """Paths of modules that called no other module."""
    return [
        structure.call_path(call) for call in range(structure.module_calls.rows) if not structure.call_children[call]
    ]
