"""Why a layer gave no map, and what a model's listening ends with."""

from __future__ import annotations

from collections.abc import Iterable

from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.module_facts import ModuleFacts

NOT_WHOLE = (
    "a softmax over {keys} scores ran here, but no product with the values reads its rows whole (banded, "
    "block-sparse, deformable or renormalised attention): there is no matrix of probabilities over positions"
)
OWN_KEYS = (
    "each of its {rows} queries is compared with {keys} keys of its own (attention to a neighbourhood, or heads whose "
    "number no module states): there is no matrix of probabilities over positions"
)
FACTOR = "its softmaxes are factors of a product (low-rank or linear attention): none of them is the attention itself"
UNNORMALIZED = (
    "products of queries and keys reach the values with row sums from {least:.3g} to {largest:.3g}: not normalised, or "
    "only afterwards (linear attention, retention, a running softmax); log_attention can record them"
)
NO_PRODUCT = (
    "a softmax here feeds a product, but its scores are no product of queries and keys (a router, pooling, linear "
    "or additive attention); name the module in AttentionOptions.accept to record it"
)
NOTHING = "no softmax, fused kernel or product of queries with keys was seen in this layer"
COMPILED = "the layer ran as compiled code that shows no kernels; record the uncompiled model"
NESTED = (
    "the softmax of a nested batch is not read: its sequences have sizes of their own; record the model on one "
    "sequence, or with log_attention"
)
EMPTY = "it ran on a sequence of length 0"
NO_VALUES = "the model ran on meta or fake tensors: there are no values"


def sorted_out(
    maps: Iterable[AttentionMap],
    reasons: dict[str, str],
    withdrawn: dict[tuple[str, int], str],
    ran: set[str],
    facts: ModuleFacts,
) -> tuple[list[AttentionMap], dict[str, str]]:
    """The maps that are attention, and module path -> why a layer that looks like attention gave none.

    Args:
        maps: Everything that was summarised.
        reasons: Module path -> a reason found while the model ran.
        withdrawn: (module path, call) -> why what was summarised there is no attention after all.
        ran: Paths of the modules in which kernels ran.
        facts: The model.
    """
    kept: list[AttentionMap] = []
    for made in maps:
        where = (made.module_path, made.call_ordinal)
        if where in withdrawn:
            reasons[made.module_path] = withdrawn[where]
        elif made.kept and made.summaries:
            kept.append(made)
        elif made.kept:
            reasons.setdefault(made.module_path, "the batch does not have the asked example")
        elif facts.looks_like_attention(made.module_path):
            reasons.setdefault(made.module_path, NOT_WHOLE.format(keys=made.key_length))
    for (path, _), words in withdrawn.items():
        reasons.setdefault(path, words)
    captured = {made.module_path for made in kept}
    missing = {path: words for path, words in reasons.items() if not _within(captured, path) and path not in captured}
    for path in facts.paths:
        if not facts.is_named_attention(path) or _within(captured, path) or _within(missing, path):
            continue
        if any(path.startswith(f"{other}.") or path == other for other in captured | set(missing) if other):
            continue
        below = f"{path}."
        if path in ran or any(other.startswith(below) for other in ran):
            if not any(other.startswith(below) and facts.is_named_attention(other) for other in facts.paths):
                missing[path] = NOTHING
        elif _is_compiled(facts, path):
            missing[path] = COMPILED
    return kept, missing


def _within(paths: Iterable[str], path: str) -> bool:
    """Whether one of the paths lies below `path` (or is it)."""
    below = f"{path}." if path else ""
    return any(other == path or other.startswith(below) for other in paths)


def _is_compiled(facts: ModuleFacts, path: str) -> bool:
    return any(
        getattr(module, "_compiled_call_impl", None) is not None or type(module).__name__ == "OptimizedModule"
        for _, module in facts.chain(path, 64)
    )
