"""What was recorded while a structure holds: the loss and gradients, which findings of the audit need."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from tb_plugin_structure.dashboards.http import Query
from tb_plugin_structure.dashboards.store import Address, RecordStore, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.steps import step_beside
from tb_plugin_structure.records.structure import Structure


class Beside(NamedTuple):
    """Records of one run beside a structure; `hashes` tells two such sets apart."""

    outside: StoredRecord | None
    measurements: dict[str, StoredRecord]
    hashes: tuple[str, ...]

    def decode(self) -> tuple[Structure | None, dict[str, Measurement]]:
        """What ran between the models, and measurements by model; damaged ones are left out."""
        outside = None
        measurements = {}
        if self.outside is not None:
            with contextlib.suppress(RecordError):
                outside = Structure.decode(self.outside.blobs())
        for model, record in self.measurements.items():
            with contextlib.suppress(RecordError):
                measurements[model] = Measurement.decode(record.blobs())
        return outside, measurements


def recorded_beside(store: RecordStore, query: Query, address: Address) -> Beside:
    """The records of the run of `address` that go with its structure: the latest of the time in which it holds, as a
    structure that did not change is not written again (see :func:`~tb_plugin_structure.records.steps.step_beside`)."""

    def series(plugin: str, prefix: str) -> dict[str, list[StoredRecord]]:
        found: dict[str, list[StoredRecord]] = {}
        tags = store.series(query.context, query.experiment, plugin)
        wanted = {(run, tag) for run, tag in tags if run == address.run and tag.startswith(prefix)}
        for record in store.records(query.context, query.experiment, plugin, wanted) if wanted else ():
            found.setdefault(record.tag, []).append(record)
        return found

    own = series(names.STRUCTURE_PLUGIN, address.tag).get(address.tag, ())
    end = min((record.step for record in own if record.step > address.step), default=None)

    def chosen_of(records: list[StoredRecord]) -> StoredRecord:
        step = step_beside([record.step for record in records], address.step, end)
        return next(record for record in records if record.step == step)

    between = series(names.STRUCTURE_PLUGIN, "outside/")
    outside = next((chosen_of(records) for records in between.values()), None)
    measured = {tag: chosen_of(records) for tag, records in series(names.MEASUREMENT_PLUGIN, "measurement/").items()}
    chosen = names.of_variant(measured, names.variant_of(address.tag))
    records = [record for record in (outside, *(measured[tag] for tag in chosen.values())) if record is not None]
    return Beside(
        outside,
        {model: measured[tag] for model, tag in chosen.items()},
        tuple(store.hash(query.experiment, record) for record in records),
    )
