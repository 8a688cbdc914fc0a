"""Features of a sequence are normalised along the positions instead of the features."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import loss_names


@rule(
    "cosine-over-positions",
    severity="warning",
    explanation="cosine_similarity and normalize take dim=1 unless told otherwise: the tokens of [batch, tokens, "
    "hidden]. Each feature is compared along the sequence, and no token with its counterpart.",
    fix="Give dim=-1.",
)
def cosine_over_positions(context: Context) -> Iterator[Finding]:
    found = loss_names(context)
    if found is None:
        return
    loss, names = found
    seen: set[str] = set()
    for kernel, name in enumerate(loss.kernels):
        if name != "linalg_vector_norm":
            continue
        tensor, where = loss.inputs(kernel)[0], loss.where(kernel)
        axes = kernel_arguments(loss.outside, kernel).integers(2, "dim") or []
        label = [dimension.name for dimension in names.of(tensor)]
        if len(axes) != 1 or len(label) < 3 or where in seen or len(loss.origin.get(tensor, ())) != 1:
            continue
        if label[axes[0]] in (dim.TOKENS, dim.LENGTH) and label[-1] in (dim.HIDDEN, dim.CHANNELS, dim.VOCABULARY):
            seen.add(where)
            along = "tokens" if label[axes[0]] == dim.TOKENS else "positions"
            yield Finding(f"{where} normalises [{', '.join(label)}] along the {along}", subject="outside")
