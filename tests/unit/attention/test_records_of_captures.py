"""The records made of captured attention: overview, details, axes."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure.capture.attention.axes import encode_png
from tb_plugin_structure.capture.attention.result import encode_planes
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header, decode_matrix
from tb_plugin_structure.records.attention_details import open_head
from tests.unit.attention.capturing import Function, captured, probabilities, query_key_value

STORED: dict[str, Any] = {"example": 0, "keep_maps": False}


class Patches(nn.Module):
    """A vision transformer's attention: a convolution makes 4 x 4 patches behind one class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.attention = nn.Conv2d(3, 16, 8, 8), nn.MultiheadAttention(16, 4, batch_first=True)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        patches = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(image), -1, -1), patches], 1)
        mixed: torch.Tensor = self.attention(x, x, x, need_weights=False)[0]
        return mixed


def causal_model() -> nn.Module:
    return Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_overview_holds_every_head_within_its_stated_error() -> None:
    q, k, v = query_key_value()
    expected = probabilities(q, k, np.tril(np.ones((9, 9), bool)))[0]
    overview = AttentionOverview.decode(captured(causal_model(), q, k, v, options=STORED).overview().encode())
    (layer,) = overview.header.layers
    assert (layer.heads, layer.key_heads, layer.query_length, layer.mask) == (4, 4, 9, "causal")
    for head in range(4):
        for kind in ("maximum", "mass"):
            stored = overview.plane(0, head, kind)
            assert np.abs(stored - expected[head]).max() <= expected[head].max() / 255
    assert overview.statistics["head"].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(overview.statistics["maximum"], 1.0)


def test_details_hold_the_full_matrix_in_half_precision() -> None:
    q, k, v = query_key_value()
    expected = probabilities(q, k, np.tril(np.ones((9, 9), bool)))[0]
    details = captured(causal_model(), q, k, v, options=STORED).details()
    assert list(details) == [""]
    (detail,) = decode_detail_header(details[""]).details
    assert (list(detail.heads), detail.first_blob) == ([0, 1, 2, 3], 1)
    for head in range(4):
        decoded = decode_matrix(detail, details[""][detail.first_blob + head])
        assert np.abs(decoded - expected[head]).max() <= 2.5e-4


def test_of_long_sequences_the_first_head_is_kept_unless_others_are_named() -> None:
    q, k, v = query_key_value(batch=1, heads=2, key_heads=2, queries=300, keys=300)
    got = captured(causal_model(), q, k, v, options={**STORED, "detail_limit": 256})
    (detail,) = decode_detail_header(got.details()[""]).details
    assert list(detail.heads) == [0]
    (layer,) = got.overview().header.layers
    assert (layer.overview_rows, layer.overview_columns) == (64, 64)
    assert captured(causal_model(), q, k, v, options={**STORED, "watch": {}}).details() == {}


def test_watched_heads_of_long_sequences_are_kept_in_full() -> None:
    q, k, v = query_key_value(batch=1, heads=3, key_heads=3, queries=300, keys=300)
    got = captured(causal_model(), q, k, v, options={**STORED, "watch": {"*": [2]}})
    (detail,) = decode_detail_header(got.details()[""]).details
    assert list(detail.heads) == [2]
    expected = probabilities(q, k, np.tril(np.ones((300, 300), bool)))[0, 2]
    stored = open_head(detail, 2, got.details()[""].__getitem__).window(slice(0, 300), slice(0, 300))
    assert np.abs(stored - expected).max() <= 1e-3


def test_very_long_sequences_are_sampled_and_say_so() -> None:
    q, k, v = query_key_value(batch=1, heads=2, key_heads=2, queries=4096, keys=4096)
    got = captured(causal_model(), q, k, v, options={**STORED, "maximum_cells": 1 << 20})
    (layer,) = got.overview().header.layers
    assert layer.exactness.endswith("; 128 of 4,096 query rows")


def test_a_decoding_step_over_131072_tokens() -> None:
    q, k, v = query_key_value(batch=1, heads=4, key_heads=2, queries=1, keys=131_072)
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    got = captured(model, q, k, v, options=STORED)
    overview = got.overview()
    (layer,) = overview.header.layers
    assert (layer.key_length, layer.overview_rows, layer.overview_columns) == (131_072, 1, 64)
    assert sum(map(len, overview.encode())) < 4_000
    expected = probabilities(q, k.repeat_interleave(2, 1))[0].reshape(4, 1, 64, 2048).sum(-1)
    for head in range(4):
        np.testing.assert_allclose(overview.plane(0, head, "mass"), expected[head], atol=expected.max() / 255)


def test_chosen_heads_keep_their_numbers() -> None:
    q, k, v = query_key_value()
    got = captured(causal_model(), q, k, v, options={**STORED, "heads": [1, 3]})
    overview = got.overview()
    assert overview.statistics["head"].tolist() == [1, 3]
    assert overview.header.layers[0].exactness.endswith("; heads 1, 3 of 4")
    (detail,) = decode_detail_header(got.details()[""]).details
    assert list(detail.heads) == [1, 3]


def test_several_examples_are_records_of_their_own() -> None:
    q, k, v = query_key_value()
    got = captured(causal_model(), q, k, v, options={**STORED, "example": [0, 1]})
    assert got.examples == [0, 1]
    assert [got.overview(example).header.example for example in got.examples] == ["0", "1"]
    assert not np.array_equal(got.overview(0).plane(0, 0), got.overview(1).plane(0, 0))


def test_an_example_that_the_batch_does_not_have() -> None:
    got = captured(causal_model(), *query_key_value(), options={**STORED, "example": 5})
    assert got.not_captured == {"": "the batch does not have the asked example"}


def test_image_patches_are_found_from_the_convolution() -> None:
    torch.manual_seed(0)
    image = torch.zeros(2, 3, 32, 32)
    image[0, :, :16] = 1.0
    overview = captured(Patches().eval(), image, options=STORED).overview()
    (axis,) = overview.header.axes
    assert (axis.kind, axis.length, axis.grid_height, axis.grid_width, axis.special_tokens) == ("image", 17, 4, 4, 1)
    assert decoded_png(axis.thumbnail_png)[[0, 31], 0].tolist() == [[255] * 3, [0] * 3]


def test_the_thumbnail_can_be_left_out() -> None:
    got = captured(Patches().eval(), torch.randn(2, 3, 32, 32), options={**STORED, "thumbnail": False})
    assert got.overview().header.axes[0].thumbnail_png == b""


def test_token_labels_attach_where_their_number_fits_hostile_ones_included() -> None:
    labels = ["<script>alert(1)</script>", "\u202eevil", "👩‍👩‍👧", "\x00", "", "ü", "\ud800", "a" * 5000, "end"]
    got = captured(causal_model(), *query_key_value(), options={**STORED, "tokens": labels})
    (axis,) = AttentionOverview.decode(got.overview().encode()).header.axes
    assert axis.kind == "text"
    assert list(axis.tokens) == [*labels[:6], "?", *labels[7:]]


def test_labels_of_the_wrong_number_are_not_attached() -> None:
    got = captured(causal_model(), *query_key_value(), options={**STORED, "tokens": ["a", "b"]})
    assert got.overview().header.axes[0].kind == "positions"


def test_labels_can_be_redacted() -> None:
    options = {**STORED, "tokens": list("abcdefghi"), "redact": lambda label: "x" if label in "aeiou" else label}
    assert list(captured(causal_model(), *query_key_value(), options=options).overview().header.axes[0].tokens) == list(
        "xbcdxfghx"
    )


def test_shared_modules_are_told_apart_by_call() -> None:
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    model = Function(lambda x: attention(attention(x, x, x)[0], x, x)[0], attention=attention)
    got = captured(model, torch.randn(1, 5, 16))
    assert [(made.module_path, made.call_ordinal) for made in got.maps] == [("attention", 0), ("attention", 1)]


def test_non_finite_rows_are_noted() -> None:
    q, k, v = query_key_value()
    q[0, 0, 2, 0] = float("nan")
    notes = list(captured(causal_model(), q, k, v, options=STORED).overview().header.notes)
    assert notes == ["the model: 1 rows hold NaN or infinity; they are left out of statistics and hatched in the maps"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 3), (0, 4, 4), (1, 0, 5)])
def test_planes_of_any_size_are_encoded(shape: tuple[int, int, int]) -> None:
    planes = np.random.default_rng(0).random(shape).astype(np.float32)
    codes, scales = encode_planes(planes)
    assert len(codes) == planes.size
    if planes.size:
        decoded = (np.frombuffer(codes, np.uint8).reshape(shape) / 255.0) ** 2 * scales[:, None, None]
        assert np.abs(decoded - planes).max() <= scales.max() / 255


def test_planes_of_nothing_but_zeros_and_nan() -> None:
    codes, scales = encode_planes(np.full((1, 2, 2), np.nan, np.float32))
    assert (codes, scales.tolist()) == (bytes(4), [0.0])


def decoded_png(data: bytes) -> np.ndarray:
    """Enough of RFC 2083 to read what :func:`encode_png` writes."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    channels = {0: 1, 2: 3}[colour]
    begin = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[begin - 8 : begin - 4])
    rows = np.frombuffer(zlib.decompress(data[begin : begin + length]), np.uint8).reshape(height, -1)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


def test_png_in_grey_and_colour() -> None:
    for channels in (1, 3):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
        np.testing.assert_array_equal(decoded_png(encode_png(pixels)), pixels)
