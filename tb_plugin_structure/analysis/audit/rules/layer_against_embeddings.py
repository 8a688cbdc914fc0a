"""The embeddings of one model are compared with what a layer of the other gives."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.compared_features import Feature, compared_features

_ATTENTION = ("softmax", "attention", "transformer_encoder_layer")
"""What the names of kernels have in common that attend, fused or not."""


@rule(
    "layer-against-embeddings",
    severity="warning",
    explanation="hidden_states[0] are the embeddings, before any layer; layer k gives hidden_states[k + 1]. A map of "
    "layers used without the 1 compares each layer with the one before its counterpart.",
    fix="hidden_states[k + 1] for layer k on both sides, or embeddings with embeddings.",
)
def layer_against_embeddings(context: Context) -> Iterator[Finding]:
    if context.outside is None:
        return
    starts = [_first_attention(side) for side in context.sides]
    if min(starts) < 0:
        return
    for compared in compared_features(
        context.outside, teacher=context.teacher.structure, student=context.student.structure
    ):
        if len(compared.teacher) != 1 or len(compared.student) != 1:
            continue
        features = compared.teacher[0], compared.student[0]
        if any(len(feature.shape) != 3 or feature.rows[1] < 0 for feature in features):
            continue
        is_early = [_is_embedding(feature, start) for feature, start in zip(features, starts, strict=True)]
        if is_early[0] != is_early[1]:
            taught, learning = (feature.path or "the output" for feature in features)
            early, late = ("teacher", "student") if is_early[0] else ("student", "teacher")
            yield Finding(
                f"{learning} of the student learns from {taught} of the teacher: embeddings of the {early} and a "
                f"layer of the {late}",
                subject="outside",
            )


def _is_embedding(feature: Feature, first_attention: int) -> bool:
    """Whether a feature is made before the first layer: not in one of several blocks, and before any attention."""
    return feature.rows[1] < first_attention and not any(part.isdigit() for part in feature.path.split("."))


def _first_attention(side: Side) -> int:
    """The first operator that attends; -1 when none does."""
    operators = side.structure.kernels["operator"].tolist()
    names = side.names.kernel_names
    attends = (kernel for kernel, name in enumerate(names) if any(part in name for part in _ATTENTION))
    return next((operators[kernel] for kernel in attends), -1)
