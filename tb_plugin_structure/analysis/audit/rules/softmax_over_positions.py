"""A softmax of scores runs over positions: over the tokens of a text, over the columns or rows of a map."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import softmaxes_of_the_loss


@rule(
    "softmax-over-positions",
    severity="error",
    explanation="The logits become probabilities over positions, not over what stands there: dim=1 of [batch, tokens, "
    "vocabulary] is the tokens, dim=-1 of [batch, classes, height, width] a single row of the image.",
    fix="Give softmax and log_softmax dim=-1 for tokens, dim=1 for maps.",
)
def softmax_over_positions(context: Context) -> Iterator[Finding]:
    for role, where, label, axis in softmaxes_of_the_loss(context):
        names = [dimension.name for dimension in label]
        if axis is not None and dim.VOCABULARY in names and dim.TOKENS in names[axis].split("\u00b7"):
            yield Finding(
                f"{where}: softmax over the tokens of the {role}'s [{', '.join(names)}]",
                subject="outside",
            )
        elif axis is not None and {dim.HEIGHT, dim.WIDTH} <= set(names) and names[axis] in (dim.HEIGHT, dim.WIDTH):
            yield Finding(
                f"{where}: softmax over the {names[axis]} alone of the {role}'s [{', '.join(names)}]",
                subject="outside",
                severity="warning",
            )
