"""Parts of heads in full resolution, read back through a real TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import torch.nn.functional as F

from tb_plugin_structure import AttentionOptions, StructureWriter
from tests.support.tensorboard_server import TensorBoardServer
from tests.unit.attention.capturing import Function, probabilities, query_key_value

N = 600
TAB = "structure_attention"


@pytest.fixture(scope="module", params=[False, True], ids=["python", "data server"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    """Two attentions over 600 positions: a causal kernel, and a softmax that the model computes itself."""
    q, k, v = query_key_value(batch=1, heads=2, key_heads=2, queries=N, keys=N, width=16)
    fused = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    eager = Function(lambda q, k, v: (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v)
    model = Function(lambda q, k, v: (fused(q, k, v), eager(q, k, v)), fused=fused, eager=eager)
    folder = tmp_path_factory.mktemp("windows")
    with StructureWriter(folder) as writer:
        with writer.record_attention({"model": model}, step=0, options=AttentionOptions(watch={"*": [1]})):
            model(q, k, v)
        with writer.record_attention(
            {"model": model}, step=1, options=AttentionOptions(watch={"*": [1]}, query_rows=[5, 9])
        ):
            model(q, k, v)
    with TensorBoardServer(folder, fast=request.param) as running:
        running.records(at_least=1, kind="attention")
        yield running


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    q, k, _ = query_key_value(batch=1, heads=2, key_heads=2, queries=N, keys=N, width=16)
    return [probabilities(q, k, np.tril(np.ones((N, N), bool)))[0, 1], probabilities(q, k)[0, 1]]


def address(server: TensorBoardServer, step: int = 0) -> dict[str, Any]:
    entry = next(entry for entry in server.records(kind="attention")["attention"] if entry["model"] == "model")
    return {"run": entry["run"], "tag": entry["tag"], "step": step}


def window(server: TensorBoardServer, layer: int, step: int = 0, **parameters: Any) -> np.ndarray:
    place: dict[str, Any] = {
        "row": 0,
        "rows": N,
        "column": 0,
        "columns": N,
        "row_cells": N,
        "column_cells": N,
        **parameters,
    }
    text = urlencode({**address(server, step), "layer": layer, "head": 1, **place})
    values = np.frombuffer(server.get(f"{TAB}/api/attention/window?{text}"), "<f4")
    return values.reshape(min(place["rows"], place["row_cells"]), min(place["columns"], place["column_cells"]))


def test_what_is_stored_is_said_with_its_guarantee(server: TensorBoardServer) -> None:
    answer = server.json(f"{TAB}/api/attention/stored?{urlencode(address(server))}")
    assert answer["heads"] == [[1], [1]]
    assert [[entry["form"] for entry in layer] for layer in answer["stored"]] == [["query and key"], ["tiles"]]
    assert "of float32 (compared when written)" in answer["stored"][0][0]["guarantee"]
    assert answer["stored"][1][0]["guarantee"] == "within 0.4 % of the row's largest probability"


def test_rows_of_query_and_key_are_reconstructed(server: TensorBoardServer, expected: list[np.ndarray]) -> None:
    row = window(server, 0, row=517, rows=1)
    assert np.abs(row[0] - expected[0][517]).max() <= 1e-3
    assert np.abs(window(server, 0) - expected[0]).max() <= 1e-3


def test_a_window_over_several_tiles(server: TensorBoardServer, expected: list[np.ndarray]) -> None:
    part = window(server, 1, row=250, rows=20, column=500, columns=30)
    assert (np.abs(part - expected[1][250:270, 500:530]).max(1) <= expected[1][250:270].max(1) / 255).all()


def test_a_coarse_window_keeps_the_largest_of_each_block(server: TensorBoardServer, expected: list[np.ndarray]) -> None:
    part = window(server, 0, row=100, rows=200, column=0, columns=400, row_cells=20, column_cells=10)
    blocks = expected[0][100:300, :400].reshape(20, 10, 10, 40).max((1, 3))
    assert np.abs(part - blocks).max() <= 1e-3


def test_the_whole_head_in_half_precision(server: TensorBoardServer, expected: list[np.ndarray]) -> None:
    text = urlencode({**address(server), "layer": 0, "head": 1})
    values = np.frombuffer(server.get(f"{TAB}/api/attention/detail?{text}"), "<f2").reshape(N, N)
    assert np.abs(values - expected[0]).max() <= 1e-3


def test_chosen_rows_are_there_and_others_are_not_a_number(
    server: TensorBoardServer, expected: list[np.ndarray]
) -> None:
    answer = server.json(f"{TAB}/api/attention/stored?{urlencode(address(server, 1))}")
    assert answer["stored"][0] == [
        {
            "heads": [1],
            "form": "rows",
            "guarantee": "within 0.00025 of float32, chosen queries only",
            "rows": [5, 9],
        }
    ]
    values = window(server, 0, 1, row=4, rows=2)
    assert np.isnan(values[0]).all()
    assert np.abs(values[1] - expected[0][5]).max() <= 2.5e-4


def divergence(server: TensorBoardServer, t_layer: int, s_layer: int, heads: str, step: int = 0) -> list[list[Any]]:
    sides = {f"{side}_{key}": value for side in "ts" for key, value in address(server, step).items()}
    text = urlencode({**sides, "t_layer": t_layer, "s_layer": s_layer, "heads": heads})
    answer: list[list[Any]] = server.json(f"{TAB}/api/attention/divergence?{text}")["heads"]
    return answer


def test_divergence_of_shown_heads_from_the_finest_resolution(
    server: TensorBoardServer, expected: list[np.ndarray]
) -> None:
    (same, other) = divergence(server, 0, 0, "1-1,0-1")
    assert same == [1, 1, 0.0, "64 of 600 queries"]
    assert other[3] == "64 x 64 blocks"  # head 0 was not kept
    rows = np.linspace(0, N - 1, 64).round().astype(int)
    p, q = expected[0][rows], expected[1][rows]
    mean = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        truth = 0.5 * np.nansum([x * np.log2(x / mean) for x in (p, q)], (0, 2)).mean()
    assert divergence(server, 0, 1, "1-1")[0][2] == pytest.approx(truth, abs=2e-3)


def test_rollout_over_the_blocks_of_the_overviews(server: TensorBoardServer) -> None:
    """Rows of a product of mixed rows sum to 1; up to the first layer it is half the map and half the identity."""
    values = []
    for layer in (0, 1):
        text = urlencode({**address(server), "layer": layer})
        data = np.frombuffer(server.get(f"{TAB}/api/attention/rollout?{text}"), "<f4")
        values.append(data.reshape(64, 64))
        np.testing.assert_allclose(values[layer].sum(-1), 1.0, atol=0.05)
    address_text = urlencode({**address(server), "part": "mass"})
    codes = np.frombuffer(server.get(f"{TAB}/api/attention/overview?{address_text}"), np.uint8).reshape(2, 2, 64, 64)
    heads = (codes[0] / 255.0) ** 2
    first = values[0] - 0.5 * np.eye(64)
    assert np.argmax(first[40]) == np.argmax(heads.mean(0)[40])


def test_divergence_of_chosen_rows(server: TensorBoardServer) -> None:
    assert divergence(server, 0, 0, "1-1", step=1) == [[1, 1, 0.0, "2 of 600 queries"]]


@pytest.mark.parametrize(
    ("parameters", "status", "message"),
    [
        ({"row": 600}, 400, "'row' is 600 and 'rows' is 1, but the head has 600 queries"),
        ({"columns": 601}, 400, "the head has 600 keys"),
        ({"rows": 0}, 400, "'rows' is 0"),
        ({"head": 0}, 404, "was stored as an overview only"),
        ({"layer": 2}, 400, "layers 0 to 1"),
    ],
)
def test_wrong_windows_are_answered_with_a_sentence(
    server: TensorBoardServer, parameters: dict[str, int], status: int, message: str
) -> None:
    place = {"layer": 0, "head": 1, "row": 0, "rows": 1, "column": 0, "columns": N, "row_cells": 1, "column_cells": 64}
    text = urlencode({**address(server), **place, **parameters})
    got, _, body = server.request(f"{TAB}/api/attention/window?{text}")
    assert got == status
    assert message in body.decode()


def test_keys_are_left_out_of_a_window(server: TensorBoardServer, expected: list[np.ndarray]) -> None:
    part = window(server, 0, row=300, rows=10, column=0, columns=40, hide="0,17,900")
    assert np.flatnonzero(np.isnan(part).all(0)).tolist() == [0, 17]
    assert np.isnan(part).sum() == 20
    pooled = window(server, 0, row=300, rows=10, column=0, columns=40, row_cells=10, column_cells=4, hide="0")
    assert np.abs(pooled[:, 0] - expected[0][300:310, 1:10].max(1)).max() <= 1e-3


def test_the_largest_probabilities_that_hold_a_share_of_the_mass(
    server: TensorBoardServer, expected: list[np.ndarray]
) -> None:
    row = window(server, 0, row=517, rows=1, mass="50")[0]
    shown = ~np.isnan(row)
    probabilities = expected[0][517]
    assert 0.5 <= probabilities[shown].sum() < 0.5 + probabilities.max()
    assert probabilities[shown].min() >= probabilities[~shown].max() - 2e-3
    without_the_first = window(server, 0, row=517, rows=1, mass="50", hide="0")[0]
    assert np.isnan(without_the_first[0])


@pytest.mark.parametrize("asked", [{"mass": "0"}, {"mass": "much"}, {"hide": "a"}, {"hide": ",".join(["1"] * 1001)}])
def test_what_cannot_be_left_out_is_refused(server: TensorBoardServer, asked: dict[str, str]) -> None:
    text = urlencode({**address(server), "layer": 0, "head": 1, "row": 0, "rows": 1, "column": 0, "columns": 1})
    status, _, body = server.request(f"{TAB}/api/attention/window?{text}&row_cells=1&column_cells=1&{urlencode(asked)}")
    assert status == 400
    assert b"'mass' is" in body
