"""A path that a loss or a configuration hooks gives nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side

_CONTAINERS = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


@rule(
    "hook-never-fires",
    severity="error",
    explanation=(
        "A hook on this path never runs in the pass, so the feature loss is silently 0, or stops with a missing key."
    ),
    fix="Hook a module that the record shows as called: report.hooks() lists them.",
)
def hook_never_fires(context: Context) -> Iterator[Finding]:
    for side, path in context.hooked:
        reason = _reason(side, path)
        if reason:
            yield side.found(f"a hook on {path!r} never fires: {reason}", path)


def _reason(side: Side, path: str) -> str:
    structure = side.structure
    module = structure.module_row.get(path, -1)
    if module < 0:
        known = structure.module_paths
        bare = path
        while bare and bare not in structure.module_row:
            bare = bare.partition(".")[2]  # a wrapper's prefix: module., _orig_mod., student_model.
        if bare:
            return f"there is no such module; without its prefix it is {bare!r}"
        inside = [name for name in known if name.endswith(f".{path}")]
        near = inside[:3] or difflib.get_close_matches(path, known, 3)
        return "there is no such module" + (f"; nearest: {', '.join(near)}" if near else "")
    if structure.calls_of_module.get(module):
        return ""
    class_name = structure.module_classes[module]
    if class_name in _CONTAINERS:
        return f"a {class_name} is not called itself; hook one of its elements"
    if side.stages.active[module]:
        return f"{class_name} is not called itself, only what it contains is"
    return f"the pass never called this {class_name}"
