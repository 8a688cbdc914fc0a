"""A measurement record: quantities per module or parameter path at one step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.quantities import Quantity, described
from tb_plugin_structure.records.schema import FORMAT_VERSION, Field
from tb_plugin_structure.records.strings import StringPool, Strings
from tb_plugin_structure.records.table import Array, Table, encode_table
from tb_plugin_structure.v1 import columns_pb2, measurement_pb2

_KEYS = (
    Field("path", "string", "module or parameter path"),
    Field("subject", "u8", "0 module, 1 parameter, 2 input of the model"),
)


class Measurement:
    """A column per quantity (named with its unit), a row per path; NaN where a row has no value."""

    def __init__(self, header: measurement_pb2.MeasurementHeader, table: Table, stored: Sequence[bytes]) -> None:
        self.header = header
        self.table = table
        self._stored = list(stored)

    @classmethod
    def build(
        cls,
        model: str,
        structure_hash: str,
        paths: Sequence[str],
        subjects: Sequence[int],
        quantities: Mapping[str, Sequence[float] | Array],
        about: Iterable[Quantity] = (),
    ) -> Measurement:
        """`subjects`: 0 for a module path, 1 for a parameter path. `about` describes quantities that are not among the
        known ones (:data:`~tb_plugin_structure.records.quantities.KNOWN`)."""
        header = measurement_pb2.MeasurementHeader(
            format_version=FORMAT_VERSION, minimum_reader_version=1, model=model, structure_hash=structure_hash
        )
        header.quantities.extend(described(quantities, subjects, about))
        pool = StringPool()
        fields = (*_KEYS, *(Field(name, "f64", name) for name in quantities))
        table = encode_table("measurements", fields, {"path": paths, "subject": subjects, **quantities}, pool)
        stored: list[bytes] = [b""]
        strings = pool.to_proto()
        blobs.add_part(header.parts, stored, "strings", strings.SerializeToString(), columns_pb2.PART_FORMAT_STRINGS)
        blobs.add_part(header.parts, stored, "measurements", table.SerializeToString(), columns_pb2.PART_FORMAT_TABLE)
        blobs.seal(header, stored)
        return cls(header, Table.from_proto(table, Strings(strings)), stored)

    def encode(self) -> list[bytes]:
        return self._stored

    @classmethod
    def decode(cls, stored: Sequence[bytes]) -> Measurement:
        """Read a record. Raises :class:`~tb_plugin_structure.records.blobs.RecordError` when it is damaged."""
        data = blobs.check_header(stored, "measurement")
        try:
            header = measurement_pb2.MeasurementHeader.FromString(data)
            blobs.check_version("measurement", header.minimum_reader_version)
            strings = Strings(columns_pb2.StringPool.FromString(blobs.part_bytes(header.parts, stored, "strings")))
            table = Table.from_proto(
                blobs.parse_table(blobs.part_bytes(header.parts, stored, "measurements")), strings, _KEYS
            )
            for name in set(table.columns) - {field.name for field in _KEYS}:
                if table[name].dtype != np.float64 or table.is_list(name):
                    raise ValueError(f"the quantity {name[:80]!r} is not a column of f64")
        except blobs.RecordError:
            raise
        except Exception as error:
            raise blobs.RecordError(f"a measurement record is damaged: {error}") from error
        return cls(header, table, stored)

    def quantities(self) -> list[measurement_pb2.Quantity]:
        """What the columns hold; of a record that does not say, plain numbers with the names of its columns."""
        if self.header.quantities:
            return list(self.header.quantities)
        keys = {field.name for field in _KEYS}
        columns = {name: self.table[name] for name in self.table.columns if name not in keys}
        return described(columns, self.table["subject"])

    def quantity(self, name: str, subject: int = 0) -> dict[str, float]:
        """Path -> value of one quantity, rows without a value left out."""
        values = self.table[name]
        chosen = np.flatnonzero((self.table["subject"] == subject) & ~np.isnan(values))
        return {self.table.text("path", row): float(values[row]) for row in chosen.tolist()}
