"""``api/attention/rollout``: attention rollout from the first layer to a chosen one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, comparing, respond_bytes
from tb_plugin_structure.dashboards.serve_attention import StoredDetails
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import RecordStore
from tb_plugin_structure.records.table import Array

_MOST_POSITIONS = 512
"""Longer sequences are rolled out over the blocks of their overviews."""


def rollout_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        details = StoredDetails(store, query, address_of(query))
        position = query.integer("layer")
        chosen = details.layer(position, 0)
        length = chosen.query_length
        if chosen.relation == "channel" or length != chosen.key_length or not length:
            raise errors.InvalidArgumentError(
                "rollout needs attention over one sequence: as many queries as keys, and no channel attention"
            )
        layers = [
            number
            for number, layer in enumerate(details.overview.header.layers[: position + 1])
            if layer.heads
            and layer.relation == chosen.relation
            and layer.query_length == layer.key_length == length
            and (layer.overview_rows, layer.overview_columns) == (chosen.overview_rows, chosen.overview_columns)
        ]
        key = ("rollout", query.experiment, details.hash, position)

        def make() -> tuple[bytes, int]:
            with comparing("attention"):
                data = _rollout(details, layers, length).astype("<f4").tobytes()
            return data, len(data)

        data: bytes = store.decoded.get(key, make)
        return respond_bytes(query, data, gzipped=False, expires=DAY if details.address.hash else 0)

    return handle


def _rollout(details: StoredDetails, layers: list[int], length: int) -> Array:
    """Over every position where all heads of all layers were kept, else over the blocks of the overviews."""
    from tb_plugin_structure.analysis.attention import rollout

    if length <= _MOST_POSITIONS:
        means = [_mean_of_heads(details, layer, length) for layer in layers]
        known = [mean for mean in means if mean is not None]
        if len(known) == len(means):
            return rollout([mean[None] for mean in known])
    chosen = details.overview.header.layers[layers[-1]]
    if chosen.overview_rows != chosen.overview_columns:
        raise errors.InvalidArgumentError(
            f"rollout needs all queries of a layer; of {chosen.query_length:,} only {chosen.overview_rows} were "
            "recorded (AttentionOptions.query_rows)"
        )
    heads = {layer: details.overview.header.layers[layer].heads for layer in layers}
    return rollout(
        [np.stack([details.overview.plane(layer, head, "mass") for head in range(heads[layer])]) for layer in layers]
    )


def _mean_of_heads(details: StoredDetails, layer: int, length: int) -> Array | None:
    total = np.zeros((length, length))
    heads = details.overview.header.layers[layer].heads
    for head in range(heads):
        opened = details.open(layer, head)
        if opened is None or opened.rows_stored is not None:
            return None
        total += opened.window(slice(0, length), slice(0, length))
    mean: Array = total / heads
    return mean
