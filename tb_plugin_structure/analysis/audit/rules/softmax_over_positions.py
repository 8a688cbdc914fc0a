"""A softmax of a language model's logits runs over the positions instead of the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import softmaxes_of_the_loss


@rule(
    "softmax-over-positions",
    severity="error",
    explanation="The logits become probabilities over the positions of a text, not over its next token: dim=1 of "
    "[batch, tokens, vocabulary] is the tokens.",
    fix="Give softmax and log_softmax dim=-1.",
)
def softmax_over_positions(context: Context) -> Iterator[Finding]:
    for role, where, label, axis in softmaxes_of_the_loss(context):
        names = [dimension.name for dimension in label]
        if axis is not None and dim.VOCABULARY in names and dim.TOKENS in names[axis].split("\u00b7"):
            yield Finding(
                f"{where}: softmax over the tokens of the {role}'s [{', '.join(names)}]",
                subject="outside",
            )
