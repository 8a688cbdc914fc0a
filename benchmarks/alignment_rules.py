"""What simpler rules find and cost beside the alignment: equal names, difflib, and the graph matcher of torch.ao.ns."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Callable

import torch
from alignment_graphs import Module, irregular, numbers_of, record, reduced
from alignment_models import Case, cases
from torch import nn

from tb_plugin_structure import align, capture
from tb_plugin_structure.records.structure import Structure

Pairs = dict[str, set[str]]


def this(case: Case) -> Pairs:
    """Two recorded passes and the alignment."""
    with torch.no_grad():
        teacher = capture(case.teacher, (case.inputs,), name="teacher")
        student = capture(case.student, (case.inputs,), name="student")
    return {path: set(found) for path, found in align(teacher=teacher, student=student).module_pairs().items()}


def equal_names(case: Case) -> Pairs:
    known = {path for path, _ in case.teacher.named_modules()}
    return {path: {path} for path, _ in case.student.named_modules() if path in known}


def by_difflib(case: Case) -> Pairs:
    """difflib on the registered modules as "last name:class"."""
    listed_t, listed_s = (list(model.named_modules()) for model in (case.teacher, case.student))
    tokens_t, tokens_s = (
        [f"{path.rpartition('.')[2]}:{type(module).__name__}" for path, module in listed]
        for listed in (listed_t, listed_s)
    )
    return {listed_s[j][0]: {listed_t[i][0]} for i, j in _blocks(tokens_t, tokens_s)}


def by_numeric_suite(case: Case) -> Pairs:
    """The matcher that torch.ao.ns.fx compares a float and a quantised model with; raises where topologies differ."""
    from torch.ao.ns._numeric_suite_fx import NSTracer
    from torch.ao.ns.fx.graph_matcher import get_matching_subgraph_pairs

    def traced(model: nn.Module) -> torch.fx.GraphModule:
        tracer = NSTracer([], [])
        graph = torch.fx.GraphModule(model, tracer.trace(model))
        graph._node_name_to_scope = tracer.node_name_to_scope  # type: ignore[assignment]
        return graph

    found: Pairs = {}
    for first, second in get_matching_subgraph_pairs(traced(case.student), traced(case.teacher)).values():
        for node_s, node_t in ((first.start_node, second.start_node), (first.end_node, second.end_node)):
            if node_s.op == node_t.op == "call_module":
                found[str(node_s.target)] = {str(node_t.target)}
    return found


RULES: dict[str, Callable[[Case], Pairs]] = {
    "equal names": equal_names,
    "difflib": by_difflib,
    "torch.ao.ns": by_numeric_suite,
    "this": this,
}


def f1(found: Pairs, truth: Pairs) -> float:
    right = sum(1 for path, targets in truth.items() if found.get(path) and found[path] <= targets)
    given = sum(1 for path in truth if found.get(path))
    return 2 * right / (given + len(truth)) if given else 0.0


def compare_rules(scale: int) -> None:
    """Print F1 over leaves and CPU seconds of each rule, on models and on operators."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    made = cases()
    for rule in RULES.values():
        rule(made[0])  # imports are nobody's cost
    print("\nF1 over leaf modules, CPU seconds (tracing and recording included)\n")
    print("| pair | " + " | ".join(RULES) + " |")
    print("|---|" + "---|" * len(RULES))
    for case in made:
        case.teacher.eval()
        case.student.eval()
        print(f"| {case.name} | " + " | ".join(_cell(rule, case) for rule in RULES.values()) + " |", flush=True)
    _compare_on_operators(10_000 // scale)


def _cell(rule: Callable[[Case], Pairs], case: Case) -> str:
    begin = time.process_time()
    try:
        found = rule(case)
    except Exception as error:  # what a rule raises is its answer
        return f"raises {type(error).__name__}"
    return f"{f1(found, case.truth):.2f}, {time.process_time() - begin:.2f} s"


def _compare_on_operators(size: int) -> None:
    made_t = irregular(size, 1)
    made_s = reduced(made_t, size // 2, 2)
    teacher, student = record(made_t, "teacher"), record(made_s, "student")
    place = {number: row for row, number in enumerate(numbers_of(made_t))}
    truth = [place[number] for number in numbers_of(made_s)]
    print(f"\nOperators of an irregular tree, {size:,} against {size // 2:,}; right: the operator it came from\n")
    print("| rule | right | wrong | CPU s |\n|---|---|---|---|")
    rules: dict[str, Callable[[], dict[int, int]]] = {
        "equal path, name and place": lambda: _same_place(made_t, made_s),
        "difflib on names": lambda: _difflib_on_operators(teacher, student),
        "this": lambda: _aligned_operators(teacher, student),
    }
    for name, rule in rules.items():
        begin = time.process_time()
        found = rule()
        spent = time.process_time() - begin
        right = sum(1 for row, target in enumerate(truth) if found.get(row) == target)
        print(
            f"| {name} | {right / len(truth):.1%} | {(len(found) - right) / len(truth):.1%} | {spent:.2f} |", flush=True
        )


def _same_place(made_t: Module, made_s: Module) -> dict[int, int]:
    """The k-th operator of a name in the module of a path."""

    def keys(made: Module) -> dict[tuple[str, str, int], int]:
        found: dict[tuple[str, str, int], int] = {}

        def visit(part: Module, path: str) -> None:
            seen: dict[str, int] = {}
            for name, *_ in part["operators"]:
                seen[name] = seen.get(name, -1) + 1
                found[path, name, seen[name]] = len(found)
            for child in part["parts"]:
                visit(child, f"{path}.{child['name']}")

        visit(made, "")
        return found

    teacher = keys(made_t)
    return {row: teacher[key] for key, row in keys(made_s).items() if key in teacher}


def _difflib_on_operators(teacher: Structure, student: Structure) -> dict[int, int]:
    names_t, names_s = (structure.operators.column_texts("name") for structure in (teacher, student))
    return {j: i for i, j in _blocks(names_t, names_s)}


def _aligned_operators(teacher: Structure, student: Structure) -> dict[int, int]:
    pairs = align(teacher=teacher, student=student).operator_pairs
    both = (pairs.teacher >= 0) & (pairs.student >= 0)
    return dict(zip(pairs.student[both].tolist(), pairs.teacher[both].tolist(), strict=True))


def _blocks(first: list[str], second: list[str]) -> list[tuple[int, int]]:
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    return [(block.a + k, block.b + k) for block in matcher.get_matching_blocks() for k in range(block.size)]
