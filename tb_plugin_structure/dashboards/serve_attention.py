"""``api/attention/detail``, ``api/attention/stored`` and ``api/attention/comparison``."""

from __future__ import annotations

from collections.abc import Callable

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, comparing, respond_bytes, respond_json
from tb_plugin_structure.dashboards.serve_analysis import Request, alignment_of, intent_of
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import Address, RecordStore
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header
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
        pairs = _configured_pairs(store, query, teacher, student)

        def make() -> tuple[dict[str, object], int]:
            from tb_plugin_structure.analysis.attention import compare

            with comparing("attention"):
                comparison = compare(teacher, student, pairs)
            pairing = "least distance" if pairs is None else "alignment"
            return {**comparison.to_dict(), "pairing": pairing}, 200 * (
                teacher.statistics.rows + student.statistics.rows
            ) + 10_000

        key = ("attention comparison", query.experiment, teacher_hash, student_hash, str(pairs))
        return respond_json(query, store.decoded.get(key, make))

    return handle


def _configured_pairs(
    store: RecordStore, query: Query, teacher: AttentionOverview, student: AttentionOverview
) -> list[tuple[int, int]] | None:
    """Layer pairs by the alignment of the two models; None when it is not asked for or says nothing."""
    if not query.text("policy", ""):
        return None
    teacher_structure = _structure_beside(store, query, address_of(query, "t_"), teacher.header.model)
    student_structure = _structure_beside(store, query, address_of(query, "s_"), student.header.model)
    if teacher_structure is None or student_structure is None:
        return None
    from tb_plugin_structure.analysis.attention.configured import configured_layer_pairs

    alignment = alignment_of(store, query, Request(teacher_structure, student_structure, *intent_of(query)))
    with comparing("structures"):
        return (
            configured_layer_pairs(alignment.module_pairs(), list(teacher.header.layers), list(student.header.layers))
            or None
        )


def _structure_beside(store: RecordStore, query: Query, attention: Address, model: str) -> Address | None:
    """The structure of the same model in the same run: the last one recorded up to the attention's step."""
    tag = names.structure_tag(model)
    records = store.records(query.context, query.experiment, names.STRUCTURE_PLUGIN, [(attention.run, tag)])
    before = [record.step for record in records if record.step <= attention.step]
    steps = before or [record.step for record in records]
    return Address(attention.run, tag, max(steps)) if steps else None
