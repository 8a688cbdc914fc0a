"""Overviews of known matrices, built without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.schema import ATTENTION_STATISTICS
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2


def overview(
    layers: Sequence[Array | str], *, tokens: Sequence[str] = (), relation: str = "self", mask: str = "none"
) -> AttentionOverview:
    """One layer per entry: maps [heads, queries, keys] of at most 64 positions, or why there are none."""
    header = attention_pb2.AttentionOverviewHeader(model="m")
    planes: list[bytes] = []
    columns: dict[str, list[Any]] = {field.name: [] for field in ATTENTION_STATISTICS}
    offset = rows = 0
    for number, maps in enumerate(layers):
        if isinstance(maps, str):
            header.layers.add(module_path=f"layer.{number}", not_captured=maps)
            continue
        heads, queries, keys = maps.shape
        axis = len(header.axes)
        header.axes.add(kind="text" if tokens else "positions", length=keys, tokens=tokens)
        header.layers.add(
            module_path=f"layer.{number}",
            heads=heads,
            key_heads=heads,
            query_length=queries,
            key_length=keys,
            relation=relation,
            mask=mask,
            query_axis=axis,
            key_axis=axis,
            first_head_row=rows,
            overview_rows=queries,
            overview_columns=keys,
            overview_offset=offset,
        )
        scales = np.nan_to_num(maps).reshape(heads, -1).max(1, initial=0)
        safe = np.where(scales > 0, scales, 1)[:, None, None]
        planes.append(np.rint(np.sqrt(np.nan_to_num(maps) / safe) * 255).astype(np.uint8).tobytes())
        for name, values in columns.items():
            filled = {"layer": [number] * heads, "head": list(range(heads))}
            values.extend(scales.tolist() if name.endswith("_scale") else filled.get(name, [0] * heads))
        rows += heads
        offset += maps.size
    data = b"".join(planes)
    return AttentionOverview.build(header, columns, data, data)


def random_heads(heads: int, positions: int, seed: int, *, causal: bool = False) -> Array:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((heads, positions, positions)) * rng.uniform(0.5, 3, heads)[:, None, None]
    if causal:
        scores = np.where(np.tril(np.ones((positions, positions))) > 0, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result
