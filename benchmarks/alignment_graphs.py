"""Synthetic records at operator level for the alignment benchmark, without torch.

Irregular graphs have no repetition that could be reused: a random tree of modules whose operators, attributes and
shapes are drawn one by one, some operators reading an older value beside the newest; the student loses modules and
operators and has other attributes and widths here and there. Foldable ones are stacks of equal blocks.
"""

from __future__ import annotations

import random
from collections import deque
from itertools import count as count_up
from typing import Any

from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

CLASSES = ("Linear", "Conv2d", "LayerNorm", "BatchNorm2d", "GELU", "ReLU", "Embedding", "MaxPool2d", "Softmax", "Gate")
OPERATORS = tuple(f"operator_{k}" for k in range(60))

Operator = tuple[str, str, tuple[int, ...], int]
"""Name, attribute, output shape, and a number that an operator keeps when its graph is reduced (-1: not numbered)."""

Module = dict[str, Any]


def module(name: str, class_name: str, operators: list[Operator], parts: list[Module] | None = None) -> Module:
    return {"name": name, "class": class_name, "operators": operators, "parts": parts or [], "container": False}


def irregular(operators: int, seed: int, of_a_module: tuple[int, int] = (5, 40)) -> Module:
    """A random tree of modules with `operators` operators in all, `of_a_module` (least, most) in each."""
    draw = random.Random(seed)
    left = operators
    numbers = count_up()

    def grow(name: str, depth: int) -> Module:
        nonlocal left
        own = [_operator(draw, next(numbers)) for _ in range(min(left, draw.randint(*of_a_module)))]
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
    return module("", "Model", [_operator(draw, number) for number in range(operators)])


def wide(operators: int, seed: int) -> Module:
    """One module that holds a few thousand leaves of random names: nothing is nested."""
    return _layered(operators, seed, (operators // 4, operators // 4), (1, 6), 1)


def branching(operators: int, seed: int) -> Module:
    """Modules of random names, each with up to six others, eight levels deep."""
    return _layered(operators, seed, (1, 6), (1, 6), 8)


def deep(operators: int, seed: int, depth: int = 1_000) -> Module:
    """Modules that lie in one another `depth` levels deep (records nest 1,024 deep at most), three leaves in each."""
    draw, numbers, left = random.Random(seed), count_up(), operators
    most = max(2, operators // depth // 2)
    root = module("", "Model", [])
    while left > 0:
        inner = root
        for _ in range(min(depth, max(operators // 10, 1))):
            if left <= 0:
                break
            for _ in range(3):
                own = [_operator(draw, next(numbers)) for _ in range(min(left, draw.randint(1, most)))]
                left -= len(own)
                inner["parts"].append(module(f"leaf{draw.randrange(10**6)}", draw.choice(CLASSES), own))
            below = module(f"inner{draw.randrange(10**6)}", f"Block{draw.randint(0, 300)}", [])
            inner["parts"].append(below)
            inner = below
    return root


def _layered(operators: int, seed: int, branches: tuple[int, int], of_a_module: tuple[int, int], levels: int) -> Module:
    """A random tree that is filled level by level; names are random words."""
    draw, numbers, left = random.Random(seed), count_up(), operators
    root = module("", "Model", [])
    work = deque([(root, 1)])
    while left > 0:
        around, level = work.popleft() if work else (root, 1)
        for k in range(draw.randint(*branches)):
            own = [_operator(draw, next(numbers)) for _ in range(min(left, draw.randint(*of_a_module)))]
            if not own:
                break
            left -= len(own)
            word = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9)))
            class_name = draw.choice(CLASSES) if draw.random() < 0.6 else f"Block{draw.randint(0, 30)}"
            around["parts"].append(module(f"{word}_{k}", class_name, own))
            if level < levels:
                work.append((around["parts"][-1], level + 1))
    return root


def _operator(draw: random.Random, number: int) -> Operator:
    shape = (2, draw.choice((16, 24, 32, 48, 64)), draw.randint(1, 64))
    return draw.choice(OPERATORS), str(draw.randint(0, 9)), shape, number


def numbers_of(made: Module) -> list[int]:
    """The numbers of all operators in the order of a record's rows."""
    return [operator[3] for part in walk(made) for operator in part["operators"]]


def reduced(made: Module, keep: int, seed: int) -> Module:
    """What is left when modules, and operators in what remains, are dropped at random until `keep` operators remain."""
    draw = random.Random(seed)
    share = keep / count(made)

    def thin(part: Module, of_modules: float) -> Module:
        return {**part, "parts": [thin(child, of_modules) for child in part["parts"] if draw.random() < of_modules]}

    # A module survives only with everything around it, so few may be dropped at each level; fewer where chance took too
    # many, down to none.
    attempts = (thin(made, share**power) for power in (0.1, 0.05, 0.02, 0.0))
    root = next(attempt for attempt in attempts if count(attempt) >= keep)
    surplus = count(root) - keep
    places = [(part, k) for part in walk(root) for k in range(len(part["operators"]))]
    dropped: dict[int, set[int]] = {}
    for part, k in draw.sample(places, surplus):
        dropped.setdefault(id(part), set()).add(k)
    for part in walk(root):
        gone = dropped.get(id(part), set())
        part["operators"] = [
            (
                name,
                attribute if draw.random() < 0.9 else "x",
                shape if draw.random() < 0.7 else (*shape[:-1], 65),
                number,
            )
            for k, (name, attribute, shape, number) in enumerate(part["operators"])
            if k not in gone
        ]
    return root


def walk(made: Module) -> list[Module]:
    """A module and all that lies in it, in the order of a record's rows."""
    found, work = [], [made]
    while work:
        part = work.pop()
        found.append(part)
        work.extend(reversed(part["parts"]))
    return found


def count(made: Module) -> int:
    return sum(len(part["operators"]) for part in walk(made))


def language_model(layers: int, width: int, experts: int = 0) -> Module:
    """A stack of decoder blocks; with experts, each block's network is a mixture of them."""

    def linear(name: str, out: int) -> Module:
        return module(name, "Linear", [("linear", "None", (2, 128, out), -1)])

    rotation = ("view", "transpose", "mul", "neg", "cat", "add", "scaled_dot_product_attention", "transpose", "reshape")
    blocks = []
    for k in range(layers):
        attention = module(
            "self_attn",
            "Attention",
            [(name, "", (2, 8, 128, 16), -1) for name in rotation],
            [linear(f"{part}_proj", width) for part in "qkvo"],
        )
        if experts:
            inner = [
                module(
                    str(e),
                    "Expert",
                    [("mul", "", (2, 8, width), -1)],
                    [linear(part, width) for part in ("w1", "w2", "w3")],
                )
                for e in range(experts)
            ]
            network = module(
                "experts", "Mixture", [("topk", "2", (2, 8), -1), ("index_add", "", (2, 128, width), -1)], inner
            )
        else:
            parts = [linear(part, 4 * width) for part in ("gate_proj", "up_proj", "down_proj")]
            network = module("mlp", "Mlp", [("mul", "", (2, 128, 4 * width), -1)], parts)
        norms = [
            module(name, "RMSNorm", [(op, "", (2, 128, width), -1) for op in ("pow", "mean", "rsqrt", "mul", "mul")])
            for name in ("input_layernorm", "post_attention_layernorm")
        ]
        added = [("add", "", (2, 128, width), -1)] * 2
        blocks.append(module(str(k), "DecoderLayer", added, [norms[0], attention, norms[1], network]))
    holder = {**module("layers", "ModuleList", [], blocks), "container": True}
    return module("", "LanguageModel", [("embedding", "", (2, 128, width), -1)], [holder])


def record(root: Module, name: str) -> Structure:
    """A record in which every module runs once, its own operators first, each on the result of the one before."""
    columns: dict[str, dict[str, list[Any]]] = {
        table: {column.name: [] for column in fields if not column.optional}
        for table, fields in STRUCTURE_TABLES.items()
    }
    modules, calls, operators = columns["modules"], columns["module_calls"], columns["operators"]
    kernels, tensors = columns["kernels"], columns["tensors"]
    draw = random.Random(0)

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
        container = part["container"]
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
        for operator, attribute, shape, _ in part["operators"]:
            number = len(kernels["name"])
            read = [value, draw.randrange(value + 1)] if draw.random() < 0.2 else [value]
            made = tensor(shape, number)
            put(
                kernels, name=operator, operator=len(operators["name"]), inputs=read, also_reads=[], outputs=[made],
                arguments="", macs=0.0,
            )  # fmt: skip
            put(
                operators, name=operator, call=call, kernel_begin=number, kernel_end=number + 1, inputs=read,
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
