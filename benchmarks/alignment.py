"""How long an alignment takes, and how it grows: synthetic graphs at operator level, without torch.

    python benchmarks/alignment.py            # the table of docs/alignment.md
    python benchmarks/alignment.py --quick    # a tenth of the size

Irregular graphs have no repetition that could be reused: a random tree of modules whose operators, attributes
and shapes are drawn one by one; the student loses a part of the modules and operators and changes widths. Foldable
ones are stacks of equal blocks. Times are CPU seconds of this process for `align` and for the wire message with its
operator pairs.
"""

from __future__ import annotations

import argparse
import difflib
import random
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

CLASSES = ("Linear", "Conv2d", "LayerNorm", "BatchNorm2d", "GELU", "ReLU", "Embedding", "MaxPool2d", "Softmax", "Gate")
OPERATORS = tuple(f"operator_{k}" for k in range(60))

Operator = tuple[str, str, tuple[int, ...]]
Module = dict[str, Any]


def module(name: str, class_name: str, operators: list[Operator], parts: list[Module] | None = None) -> Module:
    return {"name": name, "class": class_name, "operators": operators, "parts": parts or []}


def irregular(operators: int, seed: int) -> Module:
    """A random tree of modules with `operators` operators in all."""
    draw = random.Random(seed)
    left = operators

    def grow(name: str, depth: int) -> Module:
        nonlocal left
        own = []
        for _ in range(min(left, draw.randint(5, 40))):
            shape = (2, draw.choice((16, 24, 32, 48, 64)), draw.randint(1, 64))
            own.append((draw.choice(OPERATORS), str(draw.randint(0, 9)), shape))
        left -= len(own)
        made = module(name, draw.choice(CLASSES) if depth == 5 else f"Block{draw.randint(0, 30)}", own)
        if depth < 5:
            for k in range(draw.randint(1, 5)):
                if left > 0:
                    made["parts"].append(grow(f"part{k}_{draw.randint(0, 99)}", depth + 1))
        return made

    root = module("", "Model", [])
    while left > 0:
        root["parts"].append(grow(f"part{len(root['parts'])}", 1))
    return root


def flat(operators: int, seed: int) -> Module:
    """One module that runs everything itself."""
    draw = random.Random(seed)
    own = [(draw.choice(OPERATORS), str(draw.randint(0, 9)), (2, draw.randint(1, 64))) for _ in range(operators)]
    return module("", "Model", own)


def reduced(made: Module, keep: int, seed: int) -> Module:
    """What is left when modules and operators are dropped at random until about `keep` operators remain."""
    draw = random.Random(seed)
    share = keep / max(1, count(made))
    of_operators = share**0.5 if made["parts"] else share
    of_modules = share**0.12  # a module survives only with everything around it, about four levels

    def shrink(part: Module) -> Module:
        own = []
        for name, attribute, shape in part["operators"]:
            if draw.random() < of_operators:
                own.append(
                    (name, attribute if draw.random() < 0.9 else "x", shape if draw.random() < 0.7 else (*shape, 1))
                )
        parts = [shrink(child) for child in part["parts"] if draw.random() < of_modules]
        return module(part["name"], part["class"], own, parts)

    return shrink(made)


def count(made: Module) -> int:
    return len(made["operators"]) + sum(count(child) for child in made["parts"])


def language_model(layers: int, width: int, experts: int = 0) -> Module:
    """A stack of decoder blocks; with experts, each block's network is a mixture of them."""

    def linear(name: str, out: int) -> Module:
        return module(name, "Linear", [("linear", "None", (2, 128, out))])

    blocks = []
    for k in range(layers):
        attention = module(
            "self_attn",
            "Attention",
            [
                (name, "", (2, 8, 128, 16))
                for name in (
                    "view",
                    "transpose",
                    "mul",
                    "neg",
                    "cat",
                    "add",
                    "scaled_dot_product_attention",
                    "transpose",
                    "reshape",
                )
            ],
            [linear(f"{part}_proj", width) for part in "qkvo"],
        )
        if experts:
            inner = [
                module(
                    str(e), "Expert", [("mul", "", (2, 8, width))], [linear(part, width) for part in ("w1", "w2", "w3")]
                )
                for e in range(experts)
            ]
            network = module("experts", "Mixture", [("topk", "2", (2, 8)), ("index_add", "", (2, 128, width))], inner)
        else:
            network = module(
                "mlp",
                "Mlp",
                [("mul", "", (2, 128, 4 * width))],
                [linear(part, 4 * width) for part in ("gate_proj", "up_proj", "down_proj")],
            )
        norms = [
            module(name, "RMSNorm", [(op, "", (2, 128, width)) for op in ("pow", "mean", "rsqrt", "mul", "mul")])
            for name in ("input_layernorm", "post_attention_layernorm")
        ]
        blocks.append(
            module(str(k), "DecoderLayer", [("add", "", (2, 128, width))] * 2, [norms[0], attention, norms[1], network])
        )
    holder = module("layers", "ModuleList", [], blocks)
    holder["container"] = True
    return module("", "LanguageModel", [("embedding", "", (2, 128, width))], [holder])


def record(root: Module, name: str) -> Structure:
    """A record in which every module runs once, its own operators first, each on the result of the one before."""
    columns: dict[str, dict[str, list[Any]]] = {
        table: {column.name: [] for column in fields} for table, fields in STRUCTURE_TABLES.items()
    }
    modules, calls, operators = columns["modules"], columns["module_calls"], columns["operators"]
    kernels, tensors = columns["kernels"], columns["tensors"]

    def put(table: dict[str, list[Any]], **values: Any) -> int:
        for column, value in values.items():
            table[column].append(value)
        return len(table[next(iter(values))]) - 1

    def tensor(shape: tuple[int, ...], producer: int) -> int:
        return put(
            tensors, shape=list(shape), strides=[], dtype="float32", device="cpu", layout="strided", requires_grad=0,
            origin=0 if producer >= 0 else 1, producer=producer, parameter=-1, name="", storage=len(tensors["shape"]),
            storage_offset=0, bytes=0,
        )  # fmt: skip

    def visit(part: Module, path: str, parent_module: int, parent_call: int, given: int) -> int:
        container = part.get("container", False)
        row = put(
            modules, path=path, aliases=[], class_name=part["class"], class_module="", parent=parent_module,
            attribute_names=[], attribute_values=[], parameters=[], training=0, calls=int(not container),
        )  # fmt: skip
        call = parent_call
        if not container:
            call = put(
                calls, module=row, parent=parent_call, ordinal=0, operator_begin=len(operators["name"]),
                operator_end=0, inputs=[given], input_names=["0"], outputs=[], output_names=[], raised=0,
                modified_after_return=0, duration_ns=float("nan"),
            )  # fmt: skip
        value = given
        for operator, attribute, shape in part["operators"]:
            number = len(kernels["name"])
            made = tensor(shape, number)
            put(
                kernels,
                name=operator,
                operator=len(operators["name"]),
                inputs=[value],
                also_reads=[],
                outputs=[made],
                arguments="",
                macs=0.0,
            )
            put(
                operators, name=operator, call=call, kernel_begin=number, kernel_end=number + 1, inputs=[value],
                outputs=[made], attribute_names=["a"], attribute_values=[attribute], source="", macs=0.0,
                activation_bytes=0.0, uncertain=0,
            )  # fmt: skip
            value = made
        for child in part["parts"]:
            value = visit(child, f"{path}.{child['name']}" if path else child["name"], row, call, value)
        if not container:
            calls["operator_end"][call] = len(operators["name"])
            calls["outputs"][call], calls["output_names"][call] = [value], [""]
        return value

    visit(root, "", -1, -1, tensor((2, 8), -1))
    return Structure.build(structure_pb2.StructureHeader(model=name, model_class=root["class"]), columns)


def measure(teacher: Structure, student: Structure) -> tuple[float, float, int]:
    """CPU seconds of `align`, of the wire message, and how many operators were paired."""
    begin = time.process_time()
    alignment = align(teacher=teacher, student=student)
    middle = time.process_time()
    alignment.to_proto().SerializeToString()
    end = time.process_time()
    pairs = alignment.operator_pairs
    return middle - begin, end - middle, int(np.sum((np.array(pairs.teacher) >= 0) & (np.array(pairs.student) >= 0)))


def by_difflib(teacher: Structure, student: Structure) -> float:
    begin = time.process_time()
    names = [structure.operators.column_texts("name") for structure in (teacher, student)]
    difflib.SequenceMatcher(None, names[0], names[1], autojunk=False).get_matching_blocks()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--difflib", action="store_true", help="also time difflib on the names of operators (slow)")
    options = parser.parse_args()
    scale = 10 if options.quick else 1
    large = 100_000 // scale
    cases: list[tuple[str, Callable[[], tuple[Module, Module]]]] = [
        (f"irregular tree, {large:,} against {large // 2:,}", lambda: _pair(irregular, large)),
        (f"one flat module, {large:,} against {large // 2:,}", lambda: _pair(flat, large)),
        ("decoder, 80 against 32 layers", lambda: (language_model(80, 64), language_model(32, 32))),
        ("256 experts, 4 against 2 layers", lambda: (language_model(4, 64, 256), language_model(2, 32, 256))),
    ]
    print("| graph | operators T / S | align s | message s | total s | operators paired | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for title, make in cases:
        made_t, made_s = make()
        teacher, student = record(made_t, "teacher"), record(made_s, "student")
        first, second, paired = measure(teacher, student)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"| {title} | {teacher.operators.rows:,} / {student.operators.rows:,} | {first:.2f} | {second:.2f} | "
            f"{first + second:.2f} | {paired:,} | {peak:.0f} |",
            flush=True,
        )
        if options.difflib:
            print(f"  difflib on names: {by_difflib(teacher, student):.2f} s", flush=True)
    for title, generate in (("irregular tree", irregular), ("one flat module", flat)):
        sizes = [size // scale for size in (1_000, 3_000, 10_000, 30_000, 100_000)]
        times = []
        for size in sizes:
            teacher, student = (record(made, "m") for made in _pair(generate, size))
            first, second, _ = measure(teacher, student)
            times.append(max(first + second, 1e-3))
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        shown = ", ".join(f"{value:.3f}" for value in times)
        print(f"{title}: seconds {shown}; growth n^{slope:.2f} from {sizes[0]:,} to {sizes[-1]:,}")


def _pair(generate: Callable[[int, int], Module], size: int) -> tuple[Module, Module]:
    teacher = generate(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


if __name__ == "__main__":
    main()
