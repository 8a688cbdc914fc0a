"""A detail record with one head in each form that heads are stored in: three queries, three keys."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.records import attention
from tb_plugin_structure.records import attention_details as details
from tb_plugin_structure.v1 import attention_pb2


def small_details(model: str = "teacher") -> list[bytes]:
    """The blobs of the record: the header, a matrix, query with keys and mask, tiles, rows."""
    header = attention_pb2.AttentionDetailHeader(model=model)
    query, key = np.eye(3, 2).astype(np.float16), np.eye(3, 2).astype(np.float16)
    scores = query.astype(np.float32) @ key.T.astype(np.float32)
    log_sum_exp = np.log(np.exp(scores).sum(1))
    maps = np.exp(scores - log_sum_exp[:, None])
    stored = [
        attention.encode_matrix(maps),
        details.encode_query(query, log_sum_exp),
        details.encode_key(key),
        details.encode_visible(np.zeros(3, np.int64), np.array([1, 2, 3]), np.ones(3, bool)),
        details.encode_tiles(3, 3, lambda begin, end: maps[begin:end]),
        details.encode_rows(maps[[0, 2]]),
    ]
    for head, (codec, blob) in enumerate(
        (
            (attention_pb2.ATTENTION_CODEC_MATRIX_F16, 1),
            (attention_pb2.ATTENTION_CODEC_QUERY_KEY, 2),
            (attention_pb2.ATTENTION_CODEC_TILES_U8, 5),
            (attention_pb2.ATTENTION_CODEC_ROWS_F16, 6),
        )
    ):
        entry = header.details.add(
            module_path="attention", query_length=3, key_length=3, codec=codec, heads=[head], first_blob=blob
        )
        if codec == attention_pb2.ATTENTION_CODEC_QUERY_KEY:
            form = entry.form
            form.width, form.dtype, form.scale, form.mask_blob = 2, "float16", 1.0, 4
            form.key_blobs.append(3)
            form.alibi_slopes.append(0.5)
        if codec == attention_pb2.ATTENTION_CODEC_ROWS_F16:
            entry.rows.extend([0, 2])
    return attention.encode_detail(header, stored)
