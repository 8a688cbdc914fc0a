"""What was measured of a model, over the steps: which quantities, in which records, and their values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.quantities import Quantity
from tb_plugin_structure.v1 import measurement_pb2
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

TAB = "structure_graph_diff"
NAN = math.nan


def without_descriptions(measurement: Measurement) -> list[bytes]:
    """As the first version wrote it."""
    header = measurement_pb2.MeasurementHeader.FromString(measurement.encode()[0])
    del header.quantities[:]
    return [header.SerializeToString(deterministic=True), *measurement.encode()[1:]]


def write(folder: Path) -> None:
    run = event_file.OwnEventFile(folder / "kd")

    def add(tag: str, blobs: list[bytes], step: int, plugin: str = names.MEASUREMENT_PLUGIN) -> None:
        run.add_event(event_file.record_event(plugin, tag, blobs, step))

    structure = small_structure("student")
    add(names.structure_tag("student"), structure.encode(), 0, names.STRUCTURE_PLUGIN)
    paths, subjects = ["", "first", "first.weight"], [0, 0, 1]

    def measured(columns: dict[str, list[float]], *about: Quantity) -> Measurement:
        return Measurement.build("student", structure.header.structure_hash, paths, subjects, columns, about)

    monitor = names.measurement_tag("student", "", "monitor")
    add(names.measurement_tag("student"), without_descriptions(measured({"gradient_norm": [1.0, 1.0, 1.0]})), 0)
    for step, norm in ((0, 2.0), (100, 0.0), (200, math.inf)):
        add(monitor, measured({"gradient_norm": [norm, norm, NAN], "zero_fraction": [NAN, 0.25, NAN]}).encode(), step)
    cka = Quantity("cka", "similarity to the teacher", label="CKA", scale="signed")
    add(names.measurement_tag("student", "", "cka"), measured({"cka": [NAN, -0.5, NAN]}, cka).encode(), 150)
    nothing = measured({"gradient_norm": [NAN, NAN, NAN], "in_optimizer": [NAN, NAN, 1.0]})
    add(names.measurement_tag("student", "", "nothing"), nothing.encode(), 300)
    add(names.measurement_tag("student", "", "damaged"), [b"\xff\xff", b"no gzip"], 7)
    add(names.measurement_tag("student", "eval"), measured({"zero_fraction": [0.5, 0.5, NAN]}).encode(), 9)
    run.close()


@pytest.fixture(scope="module", params=["python", "rust"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"measured-{request.param}")
    write(folder)
    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        running.records(at_least=4, kind="measurements")
        yield running


def ask(server: TensorBoardServer, route: str, **parameters: Any) -> Any:
    return server.json(f"{TAB}/api/{route}?{urlencode({'run': 'kd', 'model': 'student', **parameters})}")


def test_every_quantity_is_listed_with_its_meaning_range_and_records(server: TensorBoardServer) -> None:
    listing = ask(server, "measurements")
    records = [(record["tag"], record["step"]) for record in listing["records"]]
    assert records == [
        ("measurement/student", 0),
        ("measurement/student//monitor", 0),
        ("measurement/student//monitor", 100),
        ("measurement/student//cka", 150),
        ("measurement/student//monitor", 200),
        ("measurement/student//nothing", 300),
    ]
    quantities = {quantity["name"]: quantity for quantity in listing["quantities"]}
    norm = quantities["gradient_norm"]
    assert (norm["label"], norm["scale"], norm["sum"], norm["records"]) == (
        "gradient norm",
        "log",
        "squares",
        [0, 1, 2, 4],
    )
    # The infinite norm at step 200 does not stretch the scale.
    assert (norm["minimum"], norm["maximum"], norm["least_positive"], norm["modules"]) == (0.0, 2.0, 1.0, 2)
    cka = quantities["cka"]
    assert (cka["label"], cka["meaning"], cka["scale"]) == ("CKA", "similarity to the teacher", "signed")
    assert cka["records"] == [3]
    # At step 300 no module has a gradient norm; whether the optimizer holds it is known of a parameter alone.
    assert (quantities["in_optimizer"]["records"], quantities["in_optimizer"]["modules"]) == ([5], 0)


def test_values_are_those_of_the_nearest_step(server: TensorBoardServer) -> None:
    found = ask(server, "measurements/values", quantity="gradient_norm", step=120)
    assert (found["asked_step"], found["step"], found["tag"]) == (120, 100, "measurement/student//monitor")
    assert found["modules"] == {"": 0.0, "first": 0.0}
    assert found["parameters"] == {}
    assert ask(server, "measurements/values", quantity="gradient_norm", step=10**9)["modules"]["first"] == "inf"
    # Two records at step 0: the later series counts.
    assert ask(server, "measurements/values", quantity="gradient_norm", step=0)["modules"] == {"": 2.0, "first": 2.0}
    assert ask(server, "measurements/values", quantity="cka", step=0)["modules"] == {"first": -0.5}


def test_a_variant_has_measurements_of_its_own_and_else_those_of_the_model(server: TensorBoardServer) -> None:
    assert [record["step"] for record in ask(server, "measurements", variant="eval")["records"]] == [9]
    assert len(ask(server, "measurements", variant="rank1")["records"]) == 6


KNOWN = {"run": "kd", "model": "student"}


@pytest.mark.parametrize(
    ("route", "parameters", "status", "sentence"),
    [
        ("measurements", {}, 400, "the parameter 'run' is missing"),
        ("measurements", {"run": "kd"}, 400, "the parameter 'model' is missing"),
        ("measurements", {"run": "kd", "model": "x"}, 404, "of the model 'x' in run 'kd'; measured there: 'student'"),
        ("measurements", KNOWN | {"run": "no"}, 404, "nothing was measured of the model 'student' in run 'no'"),
        ("measurements/values", KNOWN | {"step": "0"}, 400, "the parameter 'quantity' is missing"),
        ("measurements/values", KNOWN | {"quantity": "cka"}, 400, "the parameter 'step' is missing"),
        ("measurements/values", KNOWN | {"quantity": "cka", "step": "last"}, 400, "expected a whole number"),
        (
            "measurements/values",
            KNOWN | {"quantity": "loss", "step": "0"},
            404,
            "there is gradient_norm, zero_fraction",
        ),
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(
    server: TensorBoardServer, route: str, parameters: dict[str, str], status: int, sentence: str
) -> None:
    answer, _, body = server.request(f"{TAB}/api/{route}?{urlencode(parameters)}")
    assert (answer, sentence in body.decode()) == (status, True), body
