"""Full resolution of chosen heads, each compressed at once, in the smallest form that holds its guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tb_plugin_structure.capture.attention.query_keys import QueryKey, query_key
from tb_plugin_structure.capture.attention.rearranged import FoldedBatch
from tb_plugin_structure.capture.attention.sources import QueryKeySource, Source
from tb_plugin_structure.records import attention_details
from tb_plugin_structure.records.attention import encode_matrix
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2

MATRIX = attention_pb2.ATTENTION_CODEC_MATRIX_F16
QUERY_KEY = attention_pb2.ATTENTION_CODEC_QUERY_KEY
TILES = attention_pb2.ATTENTION_CODEC_TILES_U8
ROWS = attention_pb2.ATTENTION_CODEC_ROWS_F16

POSITIONS_A_WIDTH = 5
"""Query and key are smaller than the matrix from about this many positions a value of their width."""

_MOST_TILED_CELLS = 4096 * 4096
_MOST_QUERY_KEY_BYTES = 4 << 20
_MOST_COMPARED_CELLS = 1 << 27
"""Every row of a head is compared when it is kept: 11,000 x 11,000 take a few seconds of one processor."""
_ROWS_BYTES = 1 << 20
_LEAST_ROWS, _MOST_ROWS = 4, 32
_CHECKED_CELLS = 1 << 20
_WIDTH_WHEN_UNKNOWN = 64


@dataclass
class KeptHead:
    """One head, as it is stored.

    Attributes:
        head: Its number.
        codec: An ``AttentionCodec``.
        blob: Its blob.
        rows: Query positions, for single rows.
        form: Scale, soft cap, slope, …, for query and key; blobs are numbered when a record is made.
        key_head, key_blob, mask_blob: For query and key; heads of a group have equal key blobs.
    """

    head: int
    codec: Any
    blob: bytes = field(repr=False)
    rows: Sequence[int] = ()
    form: attention_pb2.QueryKeyForm | None = None
    key_head: int = 0
    key_blob: bytes = field(default=b"", repr=False)
    mask_blob: bytes = field(default=b"", repr=False)


def keep_head(source: Source, example: int, head: int, rows: Sequence[int] | None = None) -> KeptHead | None:
    """One head of an example.

    - Single rows when `rows` names them.
    - Up to 5 positions a value of the query: the half-precision matrix.
    - Beyond: query and key with the log-sum-exp of each row, when the mask has a closed form and every row read back
      agrees with the float32 row.
    - Else tiles of square-root codes, up to 4,096 x 4,096; beyond, evenly spaced rows.
    """
    if not source.queries or not source.keys:
        return None
    if rows is not None:
        return _rows(source, example, head, rows)
    if max(source.queries, source.keys) <= POSITIONS_A_WIDTH * (source.width or _WIDTH_WHEN_UNKNOWN):
        return KeptHead(head, MATRIX, encode_matrix(_probabilities(source, example, head, 0, source.queries)))
    stored = _query_key(source, example, head)
    if stored is not None:
        return stored
    if source.queries * source.keys <= _MOST_TILED_CELLS:
        return KeptHead(
            head,
            TILES,
            attention_details.encode_tiles(
                source.queries,
                source.keys,
                lambda begin, end: _probabilities(source, example, head, begin, end),
            ),
        )
    number = max(_LEAST_ROWS, min(_MOST_ROWS, _ROWS_BYTES // (2 * source.keys)))
    return _rows(source, example, head, [(2 * at + 1) * source.queries // (2 * number) for at in range(number)])


def _probabilities(source: Source, example: int, head: int, begin: int, end: int) -> Array:
    rows = torch.arange(begin, end, device=source.device)
    result: Array = source.rows(example, [head], rows).probabilities[0].cpu().numpy()
    return result


def _rows(source: Source, example: int, head: int, rows: Sequence[int]) -> KeptHead:
    chosen = sorted(set(rows))
    values = source.rows(example, [head], torch.as_tensor(chosen, dtype=torch.int64, device=source.device))
    return KeptHead(head, ROWS, attention_details.encode_rows(values.probabilities[0].cpu().numpy()), chosen)


def _query_key(source: Source, example: int, head: int) -> KeptHead | None:
    if isinstance(source, FoldedBatch) and isinstance(source.inner, QueryKeySource):
        stored = _query_key(source.inner, 0, example * source.heads + head)
        if stored is not None:
            stored.head = head
        return stored
    if not isinstance(source, QueryKeySource):
        return None
    stored_size = 2 * source.width * (source.queries + source.keys)
    if stored_size > _MOST_QUERY_KEY_BYTES or source.queries * source.keys > _MOST_COMPARED_CELLS:
        return None
    found = query_key(source, example, head)
    if found is None:
        return None
    stored = _encoded(head, found)
    return stored if _agrees(stored, source, example, head) else None


def _encoded(head: int, found: QueryKey) -> KeptHead:
    form = attention_pb2.QueryKeyForm(
        width=found.query.shape[1], dtype=found.dtype, scale=found.scale, softcap=found.softcap
    )
    if found.slope:
        form.alibi_slopes.append(found.slope)
        form.alibi_offset = found.offset
    visible = found.visible
    return KeptHead(
        head,
        QUERY_KEY,
        attention_details.encode_query(found.query, found.log_sum_exp),
        form=form,
        key_head=found.key_head,
        key_blob=attention_details.encode_key(found.key),
        mask_blob=b""
        if visible is None
        else attention_details.encode_visible(visible.begin, visible.end, visible.seen),
    )


def _agrees(stored: KeptHead, source: QueryKeySource, example: int, head: int) -> bool:
    """Whether what is read back agrees with the float32 rows, all of them; by how much is noted."""
    record = [b"", *_blobs_of([stored])]
    detail = _detail([stored], source.queries, source.keys, 1, {})
    opened = attention_details.open_head(detail, stored.head, record.__getitem__)
    assert stored.form is not None
    block = max(1, _CHECKED_CELLS // source.keys)
    for begin in range(0, source.queries, block):
        end = min(source.queries, begin + block)
        expected = _probabilities(source, example, head, begin, end)
        worst = float(np.abs(opened.window(slice(begin, end), slice(0, source.keys)) - expected).max())
        stored.form.checked_error = max(stored.form.checked_error, worst)
        if not worst <= attention_details.QUERY_KEY_ERROR:  # NaN is not
            return False
    return True


def _blobs_of(heads: Sequence[KeptHead]) -> list[bytes]:
    """Blobs of heads of one codec: the heads', then shared keys, then the mask."""
    blobs = [kept.blob for kept in heads]
    blobs += {kept.key_head: kept.key_blob for kept in heads if kept.form is not None}.values()
    blobs += [kept.mask_blob for kept in heads[:1] if kept.mask_blob]
    return blobs


def _detail(
    heads: Sequence[KeptHead], queries: int, keys: int, first_blob: int, identity: dict[str, Any]
) -> attention_pb2.AttentionDetail:
    """The entry of heads of one codec and, for query and key, of one mask; blobs as :func:`_blobs_of` gives them."""
    first = heads[0]
    detail = attention_pb2.AttentionDetail(
        **identity,
        query_length=queries,
        key_length=keys,
        codec=first.codec,
        heads=[kept.head for kept in heads],
        first_blob=first_blob,
        rows=first.rows,
    )
    if first.form is not None:
        detail.form.CopyFrom(first.form)
        del detail.form.alibi_slopes[:]
        has_slopes = any(kept.form is not None and kept.form.alibi_slopes for kept in heads)
        for kept in heads:
            assert kept.form is not None
            detail.form.alibi_slopes.extend(kept.form.alibi_slopes or ([0.0] if has_slopes else []))
            detail.form.alibi_offset = kept.form.alibi_offset or detail.form.alibi_offset
            detail.form.checked_error = max(detail.form.checked_error, kept.form.checked_error)
        number = {key: position for position, key in enumerate(dict.fromkeys(kept.key_head for kept in heads))}
        detail.form.key_blobs.extend(first_blob + len(heads) + number[kept.key_head] for kept in heads)
        if first.mask_blob:
            detail.form.mask_blob = first_blob + len(heads) + len(number)
    return detail


def add_details(
    header: attention_pb2.AttentionDetailHeader,
    blobs: list[bytes],
    heads: Sequence[KeptHead],
    queries: int,
    keys: int,
    identity: dict[str, Any],
) -> None:
    """Add the kept heads of one attention to a record: an entry for each form, and their blobs."""
    groups: dict[Any, list[KeptHead]] = {}
    for kept in heads:
        groups.setdefault((kept.codec, tuple(kept.rows), kept.mask_blob), []).append(kept)
    for members in groups.values():
        header.details.append(_detail(members, queries, keys, 1 + len(blobs), identity))
        blobs.extend(_blobs_of(members))


def stored_bytes(heads: Sequence[KeptHead]) -> int:
    """About what the heads of one attention take in a record."""
    keys = {kept.key_head: len(kept.key_blob) for kept in heads}
    masks = {kept.mask_blob for kept in heads}
    return sum(len(kept.blob) + 64 + 4 * len(kept.rows) for kept in heads) + sum(keys.values()) + sum(map(len, masks))
