"""One captured attention: where it ran, how it was obtained, and what was kept of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tb_plugin_structure.capture.attention.summary import Summary
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2

FUSED_KERNEL = attention_pb2.ATTENTION_ROUTE_FUSED_KERNEL
SOFTMAX_MATMUL = attention_pb2.ATTENTION_ROUTE_SOFTMAX_MATMUL
EXPLICIT = attention_pb2.ATTENTION_ROUTE_EXPLICIT
INTERFACE = attention_pb2.ATTENTION_ROUTE_INTERFACE
PROBE = attention_pb2.ATTENTION_ROUTE_PROBE


@dataclass(eq=False)
class AttentionMap:
    """One attention of one module call, for the recorded examples.

    Attributes:
        module_path, call_ordinal, ordinal: Identity: the module, which of its calls, which attention in that call.
        heads: Number of query heads.
        key_heads: Number of key heads (fewer under grouped queries).
        query_length, key_length: Positions.
        relation: "self", "cross" or "channel" (channel attention: the positions are channels).
        route: An ``AttentionRoute``.
        kernel: The operator.
        dtype: What the model computed in.
        mask: In words.
        exactness: In words.
        summaries: Example -> what was kept.
        window: Height and width of the window, for windowed image attention that cannot be laid over the image.
        grid: Height and width of the image in positions, where windows were laid over it.
        probabilities: [examples, heads, queries, keys] in float32 when ``AttentionOptions.keep_maps``, else None.
    """

    module_path: str
    call_ordinal: int
    ordinal: int
    heads: int
    key_heads: int
    query_length: int
    key_length: int
    relation: str
    route: Any
    kernel: str
    dtype: str
    mask: str
    exactness: str
    summaries: dict[int, Summary] = field(default_factory=dict)
    window: tuple[int, int] | None = None
    grid: tuple[int, int] | None = None
    probabilities: Array | None = field(default=None, repr=False)
    kept: bool = field(default=False, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(heads, queries, keys)."""
        return self.heads, self.query_length, self.key_length
