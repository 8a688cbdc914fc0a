"""The class token was meant to be dropped, and a patch was dropped instead."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import loss_names


@rule(
    "class-token-kept",
    severity="error",
    explanation="As many tokens are cut off as there are special ones (class, distillation, register tokens), but at "
    "the other end: the special tokens stand in front. What is left is no image grid, each patch is one place off.",
    fix="tokens[:, special:] drops them, tokens[:, 1:] a single class token.",
)
def class_token_kept(context: Context) -> Iterator[Finding]:
    found = loss_names(context)
    if found is None:
        return
    loss, names = found
    seen: set[str] = set()
    for kernel, name in enumerate(loss.kernels):
        if name != "slice" or not names.outputs[kernel]:
            continue
        before, after = names.of(loss.inputs(kernel)[0]), names.of(names.outputs[kernel][0])
        for source, piece in zip(before, after, strict=False):
            dropped = source.size - piece.size
            is_kept = source.name == piece.name == dim.TOKENS and piece.special == source.special
            is_kept = is_kept and piece.trailing == source.trailing
            if is_kept and source.grid is not None and 0 < dropped == source.special:
                message = f"{loss.where(kernel)} keeps the first {piece.size} of [{source.text()}]"
                if message not in seen:
                    seen.add(message)
                    yield Finding(message, subject="outside")
