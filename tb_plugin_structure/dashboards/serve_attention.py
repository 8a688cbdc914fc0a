"""``api/attention/detail``, ``api/attention/stored`` and ``api/attention/comparison``."""

from __future__ import annotations

from collections.abc import Callable

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, comparing, respond_bytes, respond_json
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import Address, RecordStore
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import decode_detail_header
from tb_plugin_structure.records.blobs import check_compressed


def detail_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        address = address_of(query)
        overview, _ = store.attention(query.context, query.experiment, address)
        position, head = query.integer("layer"), query.integer("head")
        if not 0 <= position < len(overview.header.layers):
            raise errors.InvalidArgumentError(
                f"'layer' is {position}, the record has layers 0 to {len(overview.header.layers) - 1}"
            )
        layer = overview.header.layers[position]
        if not 0 <= head < layer.heads:
            raise errors.InvalidArgumentError(f"'head' is {head}, the layer has heads 0 to {layer.heads - 1}")
        tag = names.attention_detail_tag(overview.header.model, layer.module_path)
        missing = (
            f"head {head} of {layer.module_path!r} was stored as an overview only at step {address.step}; "
            "its full resolution was not written"
        )
        try:
            record = store.find(
                query.context,
                query.experiment,
                names.ATTENTION_DETAIL_PLUGIN,
                Address(address.run, tag, address.step),
            )
        except errors.NotFoundError:
            raise errors.NotFoundError(missing) from None
        header = decode_detail_header([store.header(query.experiment, record)])
        for detail in header.details:
            same = (detail.module_path, detail.call_ordinal, detail.ordinal) == (
                layer.module_path,
                layer.call_ordinal,
                layer.ordinal,
            )
            if same and header.example == overview.header.example and head in detail.heads:
                blob = record.blob(detail.first_blob + list(detail.heads).index(head))
                check_compressed(blob, 2 * detail.query_length * detail.key_length)
                return respond_bytes(query, blob, gzipped=True, expires=DAY if address.hash else 0)
        raise errors.NotFoundError(missing)

    return handle


def stored_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        address = address_of(query)
        overview, _ = store.attention(query.context, query.experiment, address)
        header = overview.header
        stored: dict[tuple[str, int, int], list[int]] = {}
        for module_path in dict.fromkeys(layer.module_path for layer in header.layers):
            tag = names.attention_detail_tag(header.model, module_path)
            try:
                record = store.find(
                    query.context,
                    query.experiment,
                    names.ATTENTION_DETAIL_PLUGIN,
                    Address(address.run, tag, address.step),
                )
            except errors.NotFoundError:
                continue
            detail_header = decode_detail_header([store.header(query.experiment, record)])
            if detail_header.example == header.example:
                for detail in detail_header.details:
                    stored[detail.module_path, detail.call_ordinal, detail.ordinal] = sorted(detail.heads)
        heads = [stored.get((layer.module_path, layer.call_ordinal, layer.ordinal), []) for layer in header.layers]
        return respond_json(query, {"heads": heads})

    return handle


def comparison_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        teacher, teacher_hash = store.attention(query.context, query.experiment, address_of(query, "t_"))
        student, student_hash = store.attention(query.context, query.experiment, address_of(query, "s_"))

        def make() -> tuple[dict[str, object], int]:
            from tb_plugin_structure.analysis.attention import compare

            with comparing("attention"):
                comparison = compare(teacher, student)
            return comparison.to_dict(), 200 * (teacher.statistics.rows + student.statistics.rows) + 10_000

        key = ("attention comparison", query.experiment, teacher_hash, student_hash)
        return respond_json(query, store.decoded.get(key, make))

    return handle
