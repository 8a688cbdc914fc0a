"""A module is defined but never called."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted

_NEVER_CALLED = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})


@rule(
    "dead-module",
    severity="warning",
    explanation=(
        "A module that the pass never called has no influence on the output: it costs memory, is never trained, stops "
        "DistributedDataParallel, and a hook on it never fires."
    ),
    fix="Remove it, call it, or use an input that reaches it.",
)
def dead_module(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        if not side.structure.header.HasField("error"):
            yield from _dead(side)


def _dead(side: Side) -> Iterator[Finding]:
    structure, stages = side.structure, side.stages
    groups: dict[tuple[str, str, bool, bool], list[tuple[str, int]]] = {}  # equal modules of a stack are one finding
    for module, path in enumerate(structure.module_paths):
        parent = stages.parents[module]
        if module == 0 or stages.active[module] or structure.module_classes[module] in _NEVER_CALLED:
            continue
        if not stages.active[parent] and structure.module_classes[parent] not in _NEVER_CALLED:
            continue  # its parent is dead as a whole
        parameters = side.own_parameters(module)
        if not parameters or any(row in side.read_parameters for row in structure.module_parameters(module)):
            continue  # nothing to train, or its weights are used without calling it
        siblings = [
            child
            for child in structure.module_children[parent]
            if stages.active[child] and structure.module_classes[child] == structure.module_classes[module]
        ]
        routed = structure.module_classes[parent] == "ModuleList" and bool(siblings)
        variant = any(_is_variant(side, module, child) for child in siblings)
        key = (re.sub(r"\d+", "*", path), structure.module_classes[module], routed, variant)
        groups.setdefault(key, []).append((path, side.parameter_count(module)))
    for (pattern, class_name, routed, variant), found in groups.items():
        count = sum(parameters for _, parameters in found)
        # A teacher that never trains again loses nothing by the heads that only its own training needed.
        auxiliary = side.role == "teacher" and not any(structure.modules["training"])
        what = found[0][0] if len(found) == 1 else f"{pattern}: {counted(len(found), 'module')}"
        yield side.found(
            f"{what} ({class_name}, {counted(count, 'parameter')}) never called"
            + (", while equal modules beside them were (routing by data?)" if routed else "")
            + (", while one of equal shapes that it is named after was (for other inputs?)" if variant else ""),
            found[0][0],
            severity="info" if routed or variant or auxiliary else "",
        )


def _is_variant(side: Side, module: int, beside: int) -> bool:
    """Whether a module is one that some inputs ask for instead of another, as Longformer's ``query_global`` beside
    ``query``: named after it, with parameters of the same shapes."""
    structure = side.structure
    name, other = (structure.module_paths[row].rpartition(".")[2] for row in (module, beside))
    shapes = [
        [structure.parameters.values("shape", row).tolist() for row in sorted(side.own_parameters(each))]
        for each in (module, beside)
    ]
    return re.fullmatch(re.escape(other) + r"_[a-z]+", name) is not None and shapes[0] == shapes[1]
