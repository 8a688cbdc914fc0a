"""Tables of columns: numpy arrays over the stored bytes, without copying."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt

from tb_plugin_structure.records.schema import NUMPY_TYPES, Field
from tb_plugin_structure.records.strings import StringPool, Strings
from tb_plugin_structure.v1 import columns_pb2

Array = npt.NDArray[Any]

_TYPE_NUMBERS = {name: columns_pb2.ValueType.Value(f"VALUE_TYPE_{name.upper()}") for name in NUMPY_TYPES}
_DTYPES = {name: np.dtype(dtype) for name, dtype in NUMPY_TYPES.items()}
_TYPE_NAMES = {number: name for name, number in _TYPE_NUMBERS.items()}


class Lists(Sequence[list[int]]):
    """The lists of a list column: a sequence that keeps no object a row."""

    def __init__(self, values: memoryview, offsets: memoryview) -> None:
        self._values, self._offsets = values, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[list[int]]:
        values = self._values
        return (values[begin:end].tolist() for begin, end in pairwise(self._offsets))

    @overload
    def __getitem__(self, row: int) -> list[int]: ...

    @overload
    def __getitem__(self, row: slice) -> list[list[int]]: ...

    def __getitem__(self, row: int | slice) -> list[int] | list[list[int]]:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        if row < 0:
            row += len(self)
        found: list[int] = self._values[self._offsets[row] : self._offsets[row + 1]].tolist()
        return found


def numbers_of(array: Array) -> memoryview:
    """The values of an array in this machine's order of bytes; columns are stored as little-endian."""
    native: Any = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return memoryview(native)


class Table:
    """Rows and columns of one table.

    >>> table["macs"]                   # a plain column: an array of `rows` values
    >>> table.values("inputs", 3)         # a list column: the array of row 3
    >>> table.text("name", 3)           # a string column
    >>> table.texts("aliases", 3)       # a list column of strings
    """

    def __init__(
        self,
        name: str,
        rows: int,
        values: Mapping[str, Array],
        offsets: Mapping[str, Array],
        strings: Strings | StringPool,
    ) -> None:
        self.name = name
        self.rows = rows
        self._values = dict(values)
        self._offsets = dict(offsets)
        self._strings = strings

    def __len__(self) -> int:
        return self.rows

    def __contains__(self, column: str) -> bool:
        return column in self._values

    @property
    def columns(self) -> list[str]:
        return list(self._values)

    def __getitem__(self, column: str) -> Array:
        """The stored values of a column (string columns: indices into the pool)."""
        try:
            return self._values[column]
        except KeyError:
            raise KeyError(f"table {self.name!r} has no column {column!r}; it has {', '.join(self._values)}") from None

    def is_list(self, column: str) -> bool:
        return column in self._offsets

    def offsets(self, column: str) -> Array:
        """Positions of the lists of a list column: row r is [offsets[r], offsets[r + 1])."""
        return self._offsets[column]

    def values(self, column: str, row: int) -> Array:
        offsets = self._offsets[column]
        return self._values[column][offsets[row] : offsets[row + 1]]

    def text(self, column: str, row: int) -> str:
        return self._strings[self[column][row]]

    def texts(self, column: str, row: int) -> list[str]:
        return [self._strings[index] for index in self.values(column, row)]

    def numbers(self, column: str) -> memoryview:
        """A plain column to read single values from, as Python's numbers: several times faster than from an array, and
        without an object a row, which a list of a large record would hold."""
        return numbers_of(self[column])

    def lists(self, column: str) -> Lists:
        """All lists of a list column, each made when it is read (string columns: the indices)."""
        return Lists(numbers_of(self[column]), numbers_of(self._offsets[column]))

    def column_texts(self, column: str) -> list[str]:
        """All strings of a plain string column."""
        return self._strings.texts(self[column].tolist())

    def column_lists(self, column: str) -> list[list[Any]]:
        """All lists of a list column as Python lists (string columns: the indices)."""
        values, offsets = self[column].tolist(), self._offsets[column].tolist()
        return [values[begin:end] for begin, end in pairwise(offsets)]

    def with_columns(self, added: Table) -> Table:
        """This table with the columns of another one of as many rows and the same string pool; equal names are
        replaced."""
        if added.rows != self.rows:
            raise ValueError(f"table {self.name!r} has {self.rows} rows, the columns for it have {added.rows}")
        offsets = {name: ends for name, ends in self._offsets.items() if name not in added._values}
        return Table(self.name, self.rows, self._values | added._values, offsets | added._offsets, self._strings)

    def to_proto(self, fields: Sequence[Field]) -> columns_pb2.Table:
        """The message of the columns that `fields` declare."""
        proto = columns_pb2.Table(name=self.name, rows=self.rows)
        for field in fields:
            if not field.optional or field.name in self._values:
                proto.columns.append(_stored(field, self._values[field.name], self._offsets.get(field.name)))
        return proto

    @classmethod
    def from_proto(cls, proto: columns_pb2.Table, strings: Strings, fields: Sequence[Field] | None = None) -> Table:
        """Decode; `fields` are the columns that must be there, optional ones apart, with the types they must have.

        Raises ValueError when columns disagree in length or type, an offset points outside, or a string index is
        unknown.
        """
        values: dict[str, Array] = {}
        offsets: dict[str, Array] = {}
        rows = int(proto.rows)
        declared = {field.name: field for field in fields or ()}
        for column in proto.columns:
            where = f"column {column.name[:80]!r} of table {proto.name[:80]!r}"
            if column.name in values:
                raise ValueError(f"{where} is there twice")
            kind = _TYPE_NAMES.get(column.type)
            if kind is None:
                continue  # a type of a newer writer; the header's minimum reader version guards what matters
            field = declared.get(column.name)
            if field is not None and (field.type != kind or field.is_list != bool(column.offsets)):
                raise ValueError(f"{where} is of another type than {field.type}{' lists' if field.is_list else ''}")
            dtype = np.dtype(NUMPY_TYPES[kind])
            if len(column.values) % dtype.itemsize:
                raise ValueError(f"{where} is damaged: {len(column.values)} bytes of {dtype.itemsize}-byte values")
            array = np.frombuffer(column.values, dtype)
            if column.offsets:
                if len(column.offsets) != 4 * (rows + 1):
                    raise ValueError(f"{where} is damaged: {len(column.offsets)} bytes of offsets for {rows} rows")
                ends = np.frombuffer(column.offsets, "<u4")
                if ends[0] != 0 or int(ends[-1]) != len(array) or (np.diff(ends.astype(np.int64)) < 0).any():
                    raise ValueError(f"{where} is damaged: its offsets do not fit its {len(array)} values")
                offsets[column.name] = ends
            elif len(array) != rows:
                raise ValueError(f"{where} is damaged: {len(array)} values for {rows} rows")
            if kind == "string" and len(array) and int(array.max()) >= len(strings):
                raise ValueError(f"{where} is damaged: it names a string that is not in the pool")
            values[column.name] = array
        missing = [name for name, field in declared.items() if name not in values and not field.optional]
        if missing:
            raise ValueError(f"table {proto.name[:80]!r} lacks column {missing[0]!r}")
        return cls(proto.name, rows, values, offsets, strings)


def build_table(
    name: str,
    fields: Sequence[Field],
    columns: Mapping[str, Any],
    strings: StringPool,
) -> Table:
    """A table from the values of its columns.

    Args:
        name: Name of the table.
        fields: Its declared columns, all of which must be given but for the optional ones.
        columns: Column name -> values, one a row. List columns: a sequence of sequences, or a pair
            ``(values, offsets)`` of numpy arrays. String columns: str, interned into `strings`.
        strings: The record's pool.

    Raises:
        ValueError: When a column is missing or its length differs from the others.
    """
    _check_names(name, fields, columns)
    values: dict[str, Array] = {}
    offsets: dict[str, Array] = {}
    rows: int | None = None
    for field in fields:
        if field.name not in columns:
            continue
        values[field.name], ends = _column(field, columns[field.name], strings)
        if ends is not None:
            offsets[field.name] = ends
        rows = _same_rows(name, field, values[field.name], ends, rows)
    return Table(name, rows or 0, values, offsets, strings)


def _check_names(name: str, fields: Sequence[Field], columns: Mapping[str, Any]) -> None:
    missing = [field.name for field in fields if field.name not in columns and not field.optional]
    unknown = sorted(set(columns) - {field.name for field in fields})
    if missing or unknown:
        raise ValueError(f"table {name!r}: missing columns {missing}, undeclared columns {unknown}")


def _column(field: Field, data: Any, strings: StringPool) -> tuple[Array, Array | None]:
    """Values of a column and, for a list column, its offsets."""
    ends: Array | None = None
    flat: Any = data
    if field.is_list and isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], np.ndarray):
        flat, ends = data[0], data[1].astype("<u4")
    elif field.is_list:
        flat = list(chain.from_iterable(data))
        ends = np.zeros(len(data) + 1, "<u4")
        np.cumsum(np.fromiter(map(len, data), np.int64, len(data)), out=ends[1:])
    if field.type == "string" and not isinstance(flat, np.ndarray):
        flat = strings.intern_all(flat)
    return np.asarray(flat, _DTYPES[field.type]), ends


def _same_rows(name: str, field: Field, values: Array, ends: Array | None, rows: int | None) -> int:
    length = len(values) if ends is None else len(ends) - 1
    if rows is not None and rows != length:
        raise ValueError(f"table {name!r}: column {field.name!r} has {length} rows, expected {rows}")
    return length


def _stored(field: Field, values: Array, offsets: Array | None) -> columns_pb2.Column:
    return columns_pb2.Column(
        name=field.name,
        type=cast(columns_pb2.ValueType, _TYPE_NUMBERS[field.type]),
        values=values.tobytes(),
        offsets=b"" if offsets is None else offsets.tobytes(),
    )


def encode_table(
    name: str,
    fields: Sequence[Field],
    columns: Mapping[str, Any],
    strings: StringPool,
) -> columns_pb2.Table:
    """The message of :func:`build_table`'s table. Columns are asked for one after the other, and let go."""
    _check_names(name, fields, columns)
    proto = columns_pb2.Table(name=name)
    rows: int | None = None
    for field in fields:
        if field.name in columns:
            values, ends = _column(field, columns[field.name], strings)
            rows = _same_rows(name, field, values, ends, rows)
            proto.columns.append(_stored(field, values, ends))
    proto.rows = rows or 0
    return proto


def columns_from_rows(fields: Sequence[Field], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Turn row tuples, in the order of `fields`, into columns."""
    columns: dict[str, list[Any]] = {field.name: [] for field in fields}
    appends = [column.append for column in columns.values()]
    for row in rows:
        for append, value in zip(appends, row, strict=True):
            append(value)
    return columns
