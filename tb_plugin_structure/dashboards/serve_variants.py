"""``api/variants``: what two passes of one model did differently."""

from __future__ import annotations

from collections.abc import Callable

from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, comparing, json_text, respond_bytes
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import RecordStore
from tb_plugin_structure.records.blobs import compress


def variants_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        first, second = (
            store.stored_structure(query.context, query.experiment, address_of(query, side)) for side in ("t_", "s_")
        )

        def make() -> tuple[bytes, int]:
            from tb_plugin_structure.analysis.variants import compare_variants  # on first use: a faster start

            with (
                store.computing(first.decoded_bytes, second.decoded_bytes, is_gone=query.is_gone),
                comparing("variants"),
            ):
                found = compare_variants(first.decode(), second.decode()).to_dict()
                data = compress(json_text(found).encode(), level=2)
            return data, len(data) + 1_000

        answer = store.answers.get(("variants", query.experiment, first.hash, second.hash), make)
        return respond_bytes(query, answer, gzipped=True)

    return handle
