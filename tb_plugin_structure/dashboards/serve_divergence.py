"""``api/attention/divergence``: the Jensen-Shannon divergence of the heads that a page shows."""

from __future__ import annotations

import re
from collections.abc import Callable

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, comparing, respond_json
from tb_plugin_structure.dashboards.serve_attention import StoredDetails
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import RecordStore

_MOST_PAIRS = 128


def divergence_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        teacher = StoredDetails(store, query, address_of(query, "t_"))
        student = StoredDetails(store, query, address_of(query, "s_"))
        layers = query.integer("t_layer"), query.integer("s_layer")
        pairs = _pairs(query.text("heads"))
        for side, layer, heads in zip((teacher, student), layers, zip(*pairs, strict=True), strict=True):
            for head in heads:
                side.layer(layer, head)
        key = ("divergence", query.experiment, teacher.hash, student.hash, *layers, tuple(pairs))

        def make() -> tuple[list[list[object]], int]:
            with comparing("attention"):
                found = [[t, s, *_divergence(teacher, student, layers, t, s)] for t, s in pairs]
            return found, 200 * len(found) + 200

        return respond_json(
            query, {"measure": "Jensen-Shannon divergence in bits", "heads": store.decoded.get(key, make)}
        )

    return handle


def _pairs(text: str) -> list[tuple[int, int]]:
    """ "3-0,1-2": teacher head and student head."""
    if not re.fullmatch(r"\d{1,6}-\d{1,6}(,\d{1,6}-\d{1,6})*", text):
        raise errors.InvalidArgumentError(f"'heads' is {text[:40]!r}, expected pairs like '3-0,1-2'")
    pairs = [(int(t), int(s)) for t, _, s in (pair.partition("-") for pair in text.split(","))]
    if len(pairs) > _MOST_PAIRS:
        raise errors.InvalidArgumentError(f"'heads' has {len(pairs)} pairs, at most {_MOST_PAIRS} are compared")
    return pairs


def _divergence(
    teacher: StoredDetails, student: StoredDetails, layers: tuple[int, int], t: int, s: int
) -> tuple[float, str]:
    from tb_plugin_structure.analysis.attention.divergence import plane_divergence, stored_divergence

    heads = teacher.open(layers[0], t), student.open(layers[1], s)
    if heads[0] is not None and heads[1] is not None:
        found = stored_divergence(heads[0], heads[1])
        if found is not None:
            return found
    planes = teacher.overview.plane(layers[0], t, "mass"), student.overview.plane(layers[1], s, "mass")
    if not planes[0].size or not planes[1].size:
        return float("nan"), "nothing"
    records = teacher.overview.header.layers[layers[0]], student.overview.header.layers[layers[1]]
    sizes = {(record.query_length, record.key_length) for record in records} | {plane.shape for plane in planes}
    return plane_divergence(planes[0], planes[1], is_exact=len(sizes) == 1)
