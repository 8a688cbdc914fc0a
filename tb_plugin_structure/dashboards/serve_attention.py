"""``api/attention/detail``, ``window``, ``stored`` and ``comparison``."""

from __future__ import annotations

from collections.abc import Callable

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, comparing, json_text, respond, respond_bytes, respond_json
from tb_plugin_structure.dashboards.serve_analysis import Pair, Request, intent_of
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import Address, RecordStore, StoredAttention, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import decode_detail_header
from tb_plugin_structure.records.attention_details import FORMS, StoredHead, guarantee_of, open_head
from tb_plugin_structure.records.attention_filtered import FilteredHead
from tb_plugin_structure.records.blobs import check_compressed, compress
from tb_plugin_structure.v1 import attention_pb2

_MOST_VALUES_AT_ONCE = 1 << 20
_MOST_COST = 1 << 28
"""About a second of one processor."""
_MOST_CELLS = 1 << 20
_MOST_HIDDEN = 1_000


class StoredDetails:
    """What is stored in full resolution beside an overview."""

    def __init__(self, store: RecordStore, query: Query, address: Address) -> None:
        self._store, self._query, self.address = store, query, address
        self.overview, self.hash = store.attention(query.context, query.experiment, address)

    def layer(self, position: int, head: int) -> attention_pb2.AttentionLayer:
        """The layer at a position of the header, when it has the head."""
        header = self.overview.header
        if not 0 <= position < len(header.layers):
            raise errors.InvalidArgumentError(
                f"'layer' is {position}, the record has layers 0 to {len(header.layers) - 1}"
            )
        layer = header.layers[position]
        if not 0 <= head < layer.heads:
            raise errors.InvalidArgumentError(f"'head' is {head}, the layer has heads 0 to {layer.heads - 1}")
        return layer

    def record(self, module_path: str) -> StoredRecord | None:
        """The record of a module's heads at the overview's step."""
        tag = names.attention_detail_tag(self.overview.header.model, module_path)
        address = Address(self.address.run, tag, self.address.step)
        try:
            return self._store.find(self._query.context, self._query.experiment, names.ATTENTION_DETAIL_PLUGIN, address)
        except errors.NotFoundError:
            return None

    def entries(self, record: StoredRecord, layer: attention_pb2.AttentionLayer) -> list[attention_pb2.AttentionDetail]:
        """The entries of a record that hold heads of a layer."""
        header = decode_detail_header([self._store.header(self._query.experiment, record)])
        if header.example != self.overview.header.example:
            return []
        return [detail for detail in header.details if _identity(detail) == _identity(layer)]

    def find(self, position: int, head: int) -> tuple[attention_pb2.AttentionDetail, StoredRecord] | None:
        """Entry and record of a head; None when it was stored as an overview only."""
        layer = self.layer(position, head)
        record = self.record(layer.module_path)
        for detail in self.entries(record, layer) if record is not None else []:
            if head in detail.heads and record is not None:
                return detail, record
        return None

    def missing(self, position: int, head: int) -> errors.NotFoundError:
        path = self.overview.header.layers[position].module_path
        return errors.NotFoundError(
            f"head {head} of {path!r} was stored as an overview only at step {self.address.step}; its full "
            "resolution was not written"
        )

    def open(self, position: int, head: int) -> StoredHead | None:
        """A head, ready to be read, and kept for the next request; None when it was stored as an overview only."""
        found = self.find(position, head)
        if found is None:
            return None
        detail, record = found

        def make() -> tuple[StoredHead, int]:
            opened = open_head(detail, head, record.blob)
            matrix = detail.codec == attention_pb2.ATTENTION_CODEC_MATRIX_F16
            values = detail.query_length * detail.key_length if matrix else 0
            return opened, 4 * values + 4 * detail.form.width * (detail.query_length + detail.key_length) + 100_000

        key = ("attention head", self._query.experiment, *record.identity, *_identity(detail), head)
        with comparing("attention"):
            opened: StoredHead = self._store.decoded.get(key, make)
        return opened


def _identity(entry: attention_pb2.AttentionDetail | attention_pb2.AttentionLayer) -> tuple[str, int, int]:
    return entry.module_path, entry.call_ordinal, entry.ordinal


def detail_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        details = StoredDetails(store, query, address_of(query))
        layer, head = query.integer("layer"), query.integer("head")
        found = details.find(layer, head)
        if found is None:
            raise details.missing(layer, head)
        detail, record = found
        expires = DAY if details.address.hash else 0
        if detail.codec == attention_pb2.ATTENTION_CODEC_MATRIX_F16:
            blob = record.blob(detail.first_blob + list(detail.heads).index(head))
            check_compressed(blob, 2 * detail.query_length * detail.key_length)
            return respond_bytes(query, blob, gzipped=True, expires=expires)
        if detail.query_length * detail.key_length > _MOST_VALUES_AT_ONCE:
            raise errors.InvalidArgumentError(
                f"the head has {detail.query_length:,} x {detail.key_length:,} values; ask for parts of it at "
                "api/attention/window"
            )
        opened = details.open(layer, head)
        assert opened is not None
        with comparing("attention"):
            whole = opened.window(slice(0, detail.query_length), slice(0, detail.key_length))
        return respond_bytes(query, whole.astype("<f2").tobytes(), gzipped=False, expires=expires)

    return handle


def window_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        details = StoredDetails(store, query, address_of(query))
        layer, number = query.integer("layer"), query.integer("head")
        head = details.open(layer, number)
        if head is None:
            raise details.missing(layer, number)
        head = _filtered(query, head)
        rows = _range(query, "row", "rows", head.queries, "queries")
        columns = _range(query, "column", "columns", head.keys, "keys")
        height, width = rows.stop - rows.start, columns.stop - columns.start
        row_cells, column_cells = (
            max(1, min(query.integer(name), length))
            for name, length in (("row_cells", height), ("column_cells", width))
        )
        if row_cells * column_cells > _MOST_CELLS or head.cost(height, width) > _MOST_COST:
            raise errors.InvalidArgumentError(
                f"a window of {height:,} x {width:,} values in {row_cells:,} x {column_cells:,} cells is too much at "
                "once; ask for a smaller one"
            )
        with comparing("attention"):
            if (row_cells, column_cells) == (height, width):
                values = head.window(rows, columns)
            else:
                values = head.pooled(rows, columns, row_cells, column_cells)
        expires = DAY if details.address.hash else 0
        return respond_bytes(query, values.astype("<f4").tobytes(), gzipped=False, expires=expires)

    return handle


def _filtered(query: Query, head: StoredHead) -> StoredHead:
    """The head without the keys in "hide", and with no more of each query than the share in "mass", in per cent."""
    hide, mass = query.text("hide", ""), query.text("mass", "")
    try:
        hidden = [int(key) for key in hide.split(",")] if hide else []
        share = float(mass) / 100 if mass else 1.0
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"'hide' is {hide[:80]!r} and 'mass' is {mass[:80]!r}, expected key positions as in 'hide=0,17' and a "
            "number of per cent as in 'mass=90'"
        ) from error
    if not 0 < share <= 1 or len(hidden) > _MOST_HIDDEN:
        raise errors.InvalidArgumentError(
            f"'mass' is {mass or 100} and 'hide' has {len(hidden):,} keys, expected more than 0 to 100 per cent and at "
            f"most {_MOST_HIDDEN:,} keys"
        )
    return FilteredHead(head, hidden, share) if hidden or share < 1 else head


def _range(query: Query, begin_name: str, length_name: str, length: int, what: str) -> slice:
    begin, number = query.integer(begin_name), query.integer(length_name)
    if not (0 <= begin < length and 1 <= number <= length - begin):
        raise errors.InvalidArgumentError(
            f"{begin_name!r} is {begin} and {length_name!r} is {number}, but the head has {length:,} {what}"
        )
    return slice(begin, begin + number)


def stored_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        details = StoredDetails(store, query, address_of(query))
        layers = list(details.overview.header.layers)
        records = {path: details.record(path) for path in dict.fromkeys(layer.module_path for layer in layers)}
        heads: list[list[int]] = []
        stored: list[list[dict[str, object]]] = []
        for layer in layers:
            record = records[layer.module_path]
            entries = details.entries(record, layer) if record is not None else []
            heads.append(sorted({head for entry in entries for head in entry.heads}))
            stored.append(
                [
                    {
                        "heads": list(entry.heads),
                        "form": FORMS.get(entry.codec, "unknown"),
                        "guarantee": guarantee_of(entry),
                        **({"rows": list(entry.rows)} if entry.rows else {}),
                    }
                    for entry in entries
                ]
            )
        return respond_json(query, {"heads": heads, "stored": stored})

    return handle


def comparison_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        t_address, s_address = address_of(query, "t_"), address_of(query, "s_")
        teacher = store.stored_attention(query.context, query.experiment, t_address)
        student = store.stored_attention(query.context, query.experiment, s_address)
        same_place = (t_address.run, t_address.step) == (s_address.run, s_address.step)
        same_step = same_place and teacher.header.example == student.header.example
        pairs = _configured_pairs(store, query, teacher, student)

        def make() -> tuple[bytes, int]:
            from tb_plugin_structure.analysis.attention import compare

            pairing = "least distance" if pairs is None else "alignment"
            with store.comparing_attention(query.is_gone), comparing("attention"):
                compared = compare(teacher.decode(), student.decode(), pairs, same_step=same_step)
                found = {**compared.to_dict(), "pairing": pairing}
                data = compress(json_text(found).encode(), level=2)
            return data, len(data) + 1_000

        key = ("attention comparison", query.experiment, teacher.hash, student.hash, str(pairs))
        return respond(query, store.answers.get(key, make), "application/json", content_encoding="gzip")

    return handle


def _configured_pairs(
    store: RecordStore, query: Query, teacher: StoredAttention, student: StoredAttention
) -> list[tuple[int, int]] | None:
    """Layer pairs by the alignment of the two models; None when it is not asked for or says nothing."""
    if not query.text("policy", ""):
        return None
    teacher_structure = _structure_beside(store, query, address_of(query, "t_"), teacher.header.model)
    student_structure = _structure_beside(store, query, address_of(query, "s_"), student.header.model)
    if teacher_structure is None or student_structure is None:
        return None
    from tb_plugin_structure.analysis.attention.configured import configured_layer_pairs

    pairs = Pair(store, query, Request(teacher_structure, student_structure, *intent_of(query))).module_pairs()
    with comparing("structures"):
        return configured_layer_pairs(pairs, list(teacher.header.layers), list(student.header.layers)) or None


def _structure_beside(store: RecordStore, query: Query, attention: Address, model: str) -> Address | None:
    """The structure of the same model in the same run: the last one recorded up to the attention's step."""
    tag = names.structure_tag(model)
    records = store.records(query.context, query.experiment, names.STRUCTURE_PLUGIN, [(attention.run, tag)])
    before = [record.step for record in records if record.step <= attention.step]
    steps = before or [record.step for record in records]
    return Address(attention.run, tag, max(steps)) if steps else None
