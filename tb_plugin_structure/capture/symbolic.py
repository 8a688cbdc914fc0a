"""Symbolic dimensions of a recorded pass: the pass is run again on symbols, and each recorded tensor finds its twin.

The two passes need not run the same kernels everywhere (torch takes some operators apart when sizes are symbols). So
tensors are matched call by call, kernels by name within a call, and an expression counts only when it gives the
recorded size.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from torch import nn

from tb_plugin_structure.capture.failures import user_line
from tb_plugin_structure.capture.symbolic_inputs import SymbolicInput, probes, sizes_of
from tb_plugin_structure.records.dimensions import holds, predict
from tb_plugin_structure.records.structure import Structure

MAXIMUM_CONDITIONS = 64
MAXIMUM_EQUATIONS_NOTED = 4


class _Found(NamedTuple):
    """What one pass on symbols says about a structure."""

    run: Any
    shapes: dict[int, tuple[str, ...]]
    dimensions: list[tuple[str, str, int, int, str]]
    conditions: list[str]
    lines: dict[str, str]
    """What is fixed ("T = 12") or taken for true ("3*H*W == 2592") -> 'file:line' that asked."""


def add_symbolic_dimensions(
    structure: Structure,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    inputs: Sequence[SymbolicInput],
) -> None:
    """Fill the column ``tensors.symbolic`` and ``header.symbolic`` of a structure that `model` just gave.

    Args:
        structure: The record of ``model(*args, **kwargs)``.
        model: The model without wrappers.
        args: Positional arguments of the recorded pass.
        kwargs: Keyword arguments of the recorded pass.
        inputs: Which dimensions are free, as :func:`symbolic_inputs` gives them.
    """
    from tb_plugin_structure.capture.symbolic_pass import run_on_symbols  # brings sympy, which takes a second to load

    best: _Found | None = None
    for sizes in probes(inputs):
        found = _read(structure, run_on_symbols(model, args, kwargs, inputs, sizes), inputs)
        if best is None or _worth(found) > _worth(best):
            best = found
        if found.run.error is None and len(found.shapes) == structure.tensors.rows:
            break
    assert best is not None  # there is always a size to try
    rows = structure.tensors.rows
    structure.set_columns("tensors", {"symbolic": [best.shapes.get(row, ()) for row in range(rows)]})
    header = structure.header.symbolic
    for name, source, dimension, size, expression in best.dimensions:
        header.dimensions.add(name=name, input=source, dimension=dimension, size=size, expression=expression)
    header.conditions.extend(best.conditions[:MAXIMUM_CONDITIONS])
    header.known_tensors = len(best.shapes)
    structure.header.notes.extend(_notes(structure, best))


def _worth(found: _Found) -> tuple[bool, int, int]:
    free = sum(name == expression for name, _, _, _, expression in found.dimensions)
    return found.run.error is None, 0 if found.run.error is not None else free, len(found.shapes)


def _read(structure: Structure, run: Any, inputs: Sequence[SymbolicInput]) -> _Found:
    from tb_plugin_structure.capture.symbolic_expressions import Unprintable, simplified, text_of

    sizes = sizes_of(inputs)
    names: dict[Any, str] = {}
    resolved = {name: run.resolved(symbol) for name, symbol in run.symbols.items()}
    for name, size in resolved.items():
        if getattr(size, "is_Symbol", False):
            names.setdefault(size, name)
    data = {symbol: f"data{number}" for number, symbol in enumerate(run.data)}
    constants = _constants(run)
    known: dict[Any, str | None] = {}

    def text(size: Any) -> str | None:
        if isinstance(size, int):
            return str(size)
        if size not in known:
            try:
                known[size] = text_of(simplified(run.resolved(size).subs(constants)), {**names, **data})
            except Unprintable:
                known[size] = None
        return known[size]

    values = dict(sizes)
    shapes: dict[int, tuple[str, ...]] = {}
    for row, shape in _twins(structure, run):
        if row in shapes:
            continue
        recorded = structure.shape(row)
        texts = [text(size) for size in shape]
        if len(shape) == len(recorded) and None not in texts and _fits(texts, recorded, values):
            shapes[row] = tuple(map(str, texts))
    for row in range(structure.tensors.rows):
        if row not in shapes and structure.tensors["parameter"][row] >= 0:
            shapes[row] = tuple(map(str, structure.shape(row)))
    _spread(structure, shapes, ended_early=run.error is not None)

    dimensions = [
        (name, item.path, at, sizes[name], text(resolved[name]) or name)
        for item in inputs
        for at, name in enumerate(item.names)
        if name is not None
    ]
    for symbol, (call, position) in run.data.items():
        dimensions.append((data[symbol], _maker(structure, run, call, position), 0, values.get(data[symbol], -1), ""))
    fixed = [f"{name} == {text}" for name, _, _, _, text in dimensions if text not in ("", name)]
    lines = {name: run.asked_about(run.symbols[name]) for name, _, _, _, text in dimensions if text not in ("", name)}
    others = _conditions(run, {**names, **data}, values)
    return _Found(run, shapes, dimensions, [*fixed, *others], lines | others)


def _constants(run: Any) -> dict[Any, Any]:
    """Expressions that the pass found to be a number: left side of an equation -> the number."""
    found = {}
    for condition in run.conditions:
        if type(condition).__name__ == "Equality":
            left, right = condition.args
            if right.is_Integer and left.args:
                found[left] = right
    return found


def _fits(texts: Sequence[str | None], recorded: Sequence[int], values: dict[str, int]) -> bool:
    """Whether the expressions give the recorded sizes. A size that depends on data is learnt where it stands alone."""
    for text, size in zip(texts, recorded, strict=True):
        assert text is not None
        if text.startswith("data") and text[4:].isdigit():
            values.setdefault(text, size)
        try:
            if predict(text, values) != size:
                return False
        except ValueError:
            return False
    return True


def _twins(structure: Structure, run: Any) -> Any:
    """(row of tensors, shape in symbols), the surest first."""
    calls = structure.module_calls
    counts: dict[int, int] = {}
    keys: list[tuple[int, int]] = []
    for module in calls["module"].tolist():
        keys.append((module, counts.get(module, 0)))
        counts[module] = counts.get(module, 0) + 1
    own: dict[int, list[int]] = {}
    call_of_kernel = structure.operators["call"][structure.kernels["operator"]] if structure.kernels.rows else ()
    for kernel, call in enumerate(call_of_kernel):
        own.setdefault(int(call), []).append(kernel)
    names = structure.kernels.column_texts("name")
    pairs = [
        (kernels[at], run.kernels[keys[call]][other])
        for call, kernels in own.items()
        for at, other in _matched(
            [names[kernel] for kernel in kernels], [kernel.name for kernel in run.kernels.get(keys[call], ())]
        )
    ]
    for call, key in enumerate(keys):
        for side, shapes in (("inputs", run.call_inputs.get(key, {})), ("outputs", run.call_outputs.get(key, {}))):
            rows = calls.values(side, call).tolist()
            for name, row in zip(calls.texts(f"{side[:-1]}_names", call), rows, strict=True):
                if name in shapes:
                    yield row, shapes[name]
    for column in ("outputs", "inputs"):
        for kernel, twin in pairs:
            yield from zip(structure.kernels.values(column, kernel).tolist(), getattr(twin, column), strict=False)


def _matched(recorded: Sequence[str], symbolic: Sequence[str]) -> list[tuple[int, int]]:
    if list(recorded) == list(symbolic):
        return [(at, at) for at in range(len(recorded))]
    opcodes = SequenceMatcher(None, recorded, symbolic, autojunk=False).get_opcodes()
    # As many others in the same place: the same operators under other names (native_batch_norm and its variants).
    return [
        pair
        for _, begin, end, other_begin, other_end in opcodes
        if end - begin == other_end - other_begin
        for pair in zip(range(begin, end), range(other_begin, other_end), strict=True)
    ]


def _spread(structure: Structure, shapes: dict[int, tuple[str, ...]], *, ended_early: bool) -> None:
    """A value that lies exactly where another one lies has its shape: what a tensor is after a write through a view.

    Where the pass on symbols ended early a slice may lie there too, which happens to be as long as the whole: then only
    what was written in place counts.
    """
    tensors = structure.tensors
    place: dict[Any, tuple[str, ...]] = {}
    storages, offsets = tensors["storage"].tolist(), tensors["storage_offset"].tolist()

    def key(row: int) -> Any:
        return storages[row], offsets[row], structure.shape(row), tuple(tensors.values("strides", row).tolist())

    missing = [row for row in range(tensors.rows) if row not in shapes]
    if not missing:
        return
    for row, found in shapes.items():
        place.setdefault(key(row), found)
    producers = tensors["producer"].tolist()
    for row in missing:
        written = producers[row] >= 0 and _writes(structure.kernels.text("name", producers[row]))
        if key(row) in place and (written or not ended_early):
            shapes[row] = place[key(row)]
        elif not structure.shape(row):
            shapes[row] = ()


def _writes(kernel: str) -> bool:
    """Whether a kernel writes in place, by the convention of its name: 'aten.add_.Tensor', 'aten.add.out'."""
    _, packet, overload = f"{kernel}..".split(".")[:3]
    return (packet.endswith("_") and not packet.endswith("__")) or "out" in overload


def _maker(structure: Structure, run: Any, call: tuple[int, int], position: int) -> str:
    """The kernel that made a size that depends on data, and the module in which it ran."""
    path = structure.module_paths[call[0]]
    name = run.kernels[call][position].name if position < len(run.kernels.get(call, ())) else "an operator"
    return f"{name} in {path}" if path else str(name)


def _conditions(run: Any, names: Mapping[Any, str], values: Mapping[str, int]) -> dict[str, str]:
    """Condition -> 'file:line' of what asked."""
    from tb_plugin_structure.capture.symbolic_expressions import Unprintable, simplified, text_of

    found: dict[str, str] = {}
    usual = _usual_sizes(list(names.values()))
    for condition in run.conditions:
        try:
            text = text_of(simplified(run.resolved(condition)), names)
            if text not in found and holds(text, values) and _restricts(text, usual):
                found[text] = run.asked_about(condition)
        except (Unprintable, ValueError):
            continue
    return found


def _restricts(condition: str, sizes: Sequence[Mapping[str, int]]) -> bool:
    """Whether a condition fails at some usual sizes. Torch also asks what is always true, and whether strides differ:
    inequalities count only where a model asks for the remainder by a number."""
    if "!=" in condition and not re.search(r"%\d", condition):
        return False
    try:
        return not all(holds(condition, values) for values in sizes)
    except ValueError:
        return True


def _usual_sizes(names: Sequence[str]) -> list[dict[str, int]]:
    draw = random.Random(0)  # the same sizes every time: a record is made of nothing else than its pass
    return [{name: draw.choice((draw.randint(2, 64), draw.randint(65, 2048))) for name in names} for _ in range(64)]


def _notes(structure: Structure, found: _Found) -> list[str]:
    notes = []

    def at(what: str) -> str:
        return f" ({found.lines[what]})" if found.lines.get(what) else ""

    fixed = [
        f"{name} = {expression}{at(name)}"
        for name, _, _, _, expression in found.dimensions
        if expression not in ("", name)
    ]
    if fixed:
        notes.append(
            f"Symbolic dimensions that are not free: {', '.join(fixed)}. The model fixes them, or it turns them into "
            "plain numbers with len(), int() or range(), which symbols cannot follow."
        )
    equal = [f"{text}{at(text)}" for text in found.conditions if "==" in text and text in found.lines]
    if equal:
        notes.append(f"Symbolic dimensions hold only where {' and '.join(equal[:MAXIMUM_EQUATIONS_NOTED])}.")
    error = found.run.error
    missing = structure.tensors.rows - len(found.shapes)
    if error is not None:
        path = structure.module_paths[found.run.error_module] or "the model"
        line = user_line(error)
        text = str(error).strip().split("\n")[0][:200]
        notes.append(
            f"Symbolic dimensions: the pass on symbols ended in {path}{f' at {line}' if line else ''} "
            f"({type(error).__name__}: {text}). {missing} of {structure.tensors.rows} tensors have no expressions."
        )
    elif missing:
        notes.append(f"Symbolic dimensions: {missing} of {structure.tensors.rows} tensors have no expressions.")
    return notes
