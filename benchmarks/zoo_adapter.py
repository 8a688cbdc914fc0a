"""Shows a record to the capture zoo in the zoo's own terms: nodes with their module calls, edges, inputs, outputs.

    ZOO_OURS=zoo_adapter:capture python run.py --adapters plain,ref,ours --groups trap

Kernels are the nodes, values the edges. Written against the public API and the documented columns only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tb_plugin_structure.capture import CaptureFailed
from tb_plugin_structure.capture import capture as record
from tb_plugin_structure.records.schema import ORIGINS
from tb_plugin_structure.records.structure import Structure

_WRAPPED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


def capture(model: Any, args: Any, kwargs: Any, ctx: Any) -> Any:
    """One record of `model`, timed by `ctx`, as the zoo's ``Captured``."""
    from adapters import Captured

    failure: CaptureFailed | None = None
    structure: Structure | None = None
    with ctx.timed():
        try:
            structure = record(model, args, kwargs)
        except CaptureFailed as error:
            failure, structure = error, error.structure
    captured = Captured(partial_error=failure)
    if structure is None:
        return captured
    captured.n_bytes = sum(map(len, structure.encode()))
    _fill(captured, structure, _paths_of(ctx.ref["canon"]))
    return captured


def _paths_of(canonical: dict[str, str]) -> dict[str, list[str]]:
    """Our path -> the zoo's: there a wrapper's attribute ('module', '_orig_mod') is part of the path."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in dict.fromkeys(canonical.values()):
        pieces = [piece for piece in path.split(".") if piece not in _WRAPPED]
        found[".".join(pieces)].append(path)
        if pieces and pieces[0] == "module":
            found[".".join(pieces[1:])].append(path)
    return found


def _fill(captured: Any, structure: Structure, paths: dict[str, list[str]]) -> None:
    calls = structure.module_calls
    parents = calls["parent"].tolist()
    counts: dict[str, int] = defaultdict(int)
    stacks: list[list[tuple[str, int]]] = []
    for call in range(calls.rows):
        path = structure.call_path(call)
        mine = [(known, counts[path]) for known in paths.get(path, [path])]
        counts[path] += 1
        stacks.append((stacks[parents[call]] if parents[call] >= 0 else []) + mine)
    captured.calls = {known: number for path, number in counts.items() for known in paths.get(path, [path])}

    kernels, tensors = structure.kernels, structure.tensors
    operator_call = structure.operators["call"].tolist()
    operator = kernels["operator"].tolist()
    producer, origin = tensors["producer"].tolist(), tensors["origin"].tolist()
    given = ORIGINS.index("input")

    def source(row: int) -> Any:
        return producer[row] if producer[row] >= 0 else "in" if origin[row] == given else None

    outputs = kernels.column_lists("outputs")
    for kernel, (reads, also) in enumerate(
        zip(kernels.column_lists("inputs"), kernels.column_lists("also_reads"), strict=True)
    ):
        stack = stacks[operator_call[operator[kernel]]]
        captured.nodes[kernel] = (kernels.text("name", kernel), stack, bool(outputs[kernel]))
        for row in (*reads, *also):
            if source(row) is not None:
                captured.edges.add((source(row), kernel))
    captured.inputs = {"in"}
    for call in range(calls.rows):
        if parents[call] < 0:
            captured.outputs |= {source(row) for row in calls.values("outputs", call).tolist()} - {None}
    captured.n_ops = kernels.rows
