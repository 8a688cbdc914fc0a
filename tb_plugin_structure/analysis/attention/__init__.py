"""Did the student learn to look where the teacher looks? Distances, head matching and layer maps, without torch."""

from tb_plugin_structure.analysis.attention.assignment import assign
from tb_plugin_structure.analysis.attention.comparison import AttentionComparison, LayerComparison, compare
from tb_plugin_structure.analysis.attention.distances import hellinger, jensen_shannon, rollout
from tb_plugin_structure.analysis.attention.pooling import onto_tokens, pool, span_overlap

__all__ = [
    "AttentionComparison",
    "LayerComparison",
    "assign",
    "compare",
    "hellinger",
    "jensen_shannon",
    "onto_tokens",
    "pool",
    "rollout",
    "span_overlap",
]
