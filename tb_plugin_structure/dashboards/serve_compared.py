"""``api/compared``: which features of two models the loss of the recorded step compared."""

from __future__ import annotations

from collections.abc import Callable

from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, comparing, respond_json
from tb_plugin_structure.dashboards.recorded_beside import recorded_beside
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import RecordStore


def compared_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        student_address = address_of(query, "s_")
        teacher, _ = store.structure(query.context, query.experiment, address_of(query, "t_"))
        student, _ = store.structure(query.context, query.experiment, student_address)
        with comparing("structures"):
            from tb_plugin_structure.analysis.compared_features import compared_features  # a faster start

            outside, _ = recorded_beside(store, query, student_address).decode()
            found = [] if outside is None else compared_features(outside, teacher=teacher, student=student)
            return respond_json(query, {"recorded": outside is not None, "pairs": [each.to_dict() for each in found]})

    return handle
