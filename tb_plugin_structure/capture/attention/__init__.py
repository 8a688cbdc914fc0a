"""Attention as the model computed it, seen by the observer that records operators.

| file | idea |
| --- | --- |
| ``options`` | what to record |
| ``listener`` | hears every kernel of a region and decides which handler looks at it |
| ``kernels`` | arguments of fused kernels |
| ``softmax``, ``storage_tags`` | softmax followed to the product with the values, by tags on storages |
| ``encoder_layers`` | PyTorch's fused transformer layers |
| ``flex``, ``interface`` | FlexAttention, transformers' attention interface |
| ``probe`` | one-hot values through an unknown kernel |
| ``explicit`` | ``log_attention`` |
| ``aside`` | computing what no mode of the user sees |
| ``sources``, ``rearranged``, ``windows`` | float32 rows on demand; heads and windows that were folded elsewhere |
| ``model_attention`` | the attentions of one model, each summarised at once |
| ``summary`` | statistics, overview, full matrix of one attention, from its rows |
| ``reasons`` | why a layer gave no map |
| ``module_facts``, ``axes`` | what the module and the positions are |
| ``stitch`` | joins the calls of a decoding loop |
| ``query_keys``, ``kept`` | full resolution of chosen heads, in the smallest form that is exact enough |
| ``between`` | distances to the heads of another model of the same step |
| ``maps``, ``result`` | captured attentions, and the records made of them |
| ``budget`` | how much of it is written |
"""

from tb_plugin_structure.capture.attention.between import compare_captures, farthest_heads
from tb_plugin_structure.capture.attention.budget import AttentionBudget
from tb_plugin_structure.capture.attention.explicit import log_attention
from tb_plugin_structure.capture.attention.kernels import FusedArguments, attention_kernel
from tb_plugin_structure.capture.attention.listener import AttentionListener
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.capture.attention.result import AttentionCapture

__all__ = [
    "AttentionBudget",
    "AttentionCapture",
    "AttentionListener",
    "AttentionMap",
    "AttentionOptions",
    "FusedArguments",
    "attention_kernel",
    "compare_captures",
    "farthest_heads",
    "log_attention",
]
