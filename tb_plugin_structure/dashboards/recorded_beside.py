"""What was recorded in the same step as a structure: the loss and gradients, which findings of the audit need."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from tb_plugin_structure.dashboards.http import Query
from tb_plugin_structure.dashboards.store import Address, RecordStore, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure


class Beside(NamedTuple):
    """Records of one run near a step; `hashes` tells two such sets apart."""

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
    """The records of the run of `address` at the nearest step. (A structure that did not change is not written
    again, so steps need not be equal.)"""

    def nearest(plugin: str, prefix: str) -> dict[str, StoredRecord]:
        found: dict[str, StoredRecord] = {}
        tags = store.series(query.context, query.experiment, plugin)
        wanted = {(run, tag) for run, tag in tags if run == address.run and tag.startswith(prefix)}
        for record in store.records(query.context, query.experiment, plugin, wanted) if wanted else ():
            best = found.get(record.tag)
            if best is None or abs(record.step - address.step) < abs(best.step - address.step):
                found[record.tag] = record
        return found

    outside = next(iter(nearest(names.STRUCTURE_PLUGIN, "outside/").values()), None)
    measured = nearest(names.MEASUREMENT_PLUGIN, "measurement/")
    chosen = names.of_variant(measured, names.variant_of(address.tag))
    records = [record for record in (outside, *(measured[tag] for tag in chosen.values())) if record is not None]
    return Beside(
        outside,
        {model: measured[tag] for model, tag in chosen.items()},
        tuple(store.hash(query.experiment, record) for record in records),
    )
