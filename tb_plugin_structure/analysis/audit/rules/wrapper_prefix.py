"""The model was recorded through a wrapper, or holds one."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule

_PREFIXES = {
    "DistributedDataParallel": "module.",
    "DataParallel": "module.",
    "OptimizedModule": "_orig_mod.",
    "FullyShardedDataParallel": "_fsdp_wrapped_module.",
}
_SEGMENTS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "base_model.model")


@rule(
    "wrapper-prefix",
    severity="info",
    explanation=(
        "Paths in configuration files that were written for the bare model match nothing in the wrapped one: hooks "
        "never fire, and the feature loss is silently 0."
    ),
    fix="Hook the inner model (DistillationPlan does), or put the prefix in front of the paths.",
)
def wrapper_prefix(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        for wrapper in side.structure.header.provenance.wrappers:
            prefix = _PREFIXES.get(wrapper)
            text = f"; its own paths begin with {prefix!r}" if prefix else ""
            yield side.found(f"the model is wrapped in {wrapper}{text}")
        for path in side.structure.module_paths:
            inside = next((s for s in _SEGMENTS if f".{s}." in f".{path}."), None)
            if inside is not None:
                yield side.found(f"{path} lies inside a wrapper ({inside})", path)
                break
