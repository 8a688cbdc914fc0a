"""A structure record as an object: what one model executed in one pass."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.consistency import check_structure
from tb_plugin_structure.records.dimensions import holds, predict
from tb_plugin_structure.records.schema import FORMAT_VERSION, STRUCTURE_TABLES
from tb_plugin_structure.records.strings import StringPool, Strings
from tb_plugin_structure.records.structure_hash import structure_hash
from tb_plugin_structure.records.structure_text import canonical_text
from tb_plugin_structure.records.structure_tree import tree_text
from tb_plugin_structure.records.subtrees import subtree_totals
from tb_plugin_structure.records.table import Array, Table, build_table
from tb_plugin_structure.v1 import columns_pb2, structure_pb2

if TYPE_CHECKING:
    from tb_plugin_structure.records.measurement import Measurement


_building = threading.RLock()
"""Two threads that look at a deferred structure for the first time build it once."""


class Structure:
    """What one model executed. Tables as in :mod:`tb_plugin_structure.records.schema`.

    Rows of one table refer to rows of another by number. ``modules`` row 0 and ``module_calls`` row 0 are the model.

    Attributes:
        gradients: Gradient norms of this pass when it was recorded with a backward pass, else None. They are no part of
            the record: a measurement record of their own holds them.
    """

    _pending: Callable[[], Structure]

    def __init__(
        self,
        header: structure_pb2.StructureHeader,
        tables: Mapping[str, Table],
        config: Any = None,
        stored: Sequence[bytes] | None = None,
    ) -> None:
        self.header = header
        self.config = config
        self.gradients: Measurement | None = None
        self.modules = tables["modules"]
        self.parameters = tables["parameters"]
        self.module_calls = tables["module_calls"]
        self.operators = tables["operators"]
        self.kernels = tables["kernels"]
        self.tensors = tables["tensors"]
        self._stored = list(stored) if stored is not None else None
        self._pool: StringPool | None = None

    # ---- encode, decode

    @classmethod
    def build(
        cls,
        header: structure_pb2.StructureHeader,
        columns: Mapping[str, Mapping[str, Any]],
        config: Any = None,
    ) -> Structure:
        """Encode columns (table name -> column name -> values, see :func:`build_table`) and complete the header:
        versions, counts, structure hash and parts."""
        pool = StringPool()
        tables = {name: build_table(name, fields, columns[name], pool) for name, fields in STRUCTURE_TABLES.items()}
        header.format_version = FORMAT_VERSION
        header.minimum_reader_version = 1
        for name in ("modules", "module_calls", "operators", "kernels"):
            setattr(header.totals, name, tables[name].rows)
        structure = cls(header, tables, config)
        structure._pool = pool
        header.structure_hash = structure_hash(tables)
        return structure

    @classmethod
    def deferred(cls, build: Callable[[], Structure]) -> Structure:
        """A structure that is built when it is first looked at. `build` must hold all that it needs.

        What `build` raises is raised by the first look, and again by each further one.
        """
        structure = cls.__new__(cls)
        structure._pending = build
        return structure

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # asked only for what is not there yet
            if "_pending" not in self.__dict__ or name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._build_pending()
            return getattr(self, name)

    def _build_pending(self) -> None:
        with _building:
            build = self.__dict__.get("_pending")
            if build is not None:
                for name, value in vars(build()).items():
                    self.__dict__.setdefault(name, value)
                del self._pending

    def __getstate__(self) -> dict[str, Any]:
        self._build_pending()
        return self.__dict__

    def set_columns(self, table: str, columns: Mapping[str, Any]) -> None:
        """Add optional columns to a record that was just made, or replace columns of it.

        Args:
            table: Name of the table, e.g. "operators".
            columns: Column name -> values, as :func:`build_table` takes them.

        Raises:
            ValueError: When the record was read from an event file, a column is not declared, or its length differs.
        """
        if self._pool is None:
            raise ValueError("columns can be set on a new record only, this one was read from an event file")
        declared = [field for field in STRUCTURE_TABLES[table] if field.name in columns]
        added = build_table(table, declared, columns, self._pool)
        setattr(self, table, getattr(self, table).with_columns(added))
        self._stored = None

    def encode(self) -> list[bytes]:
        """The blobs of the event: header, then compressed parts. Compressed when first asked for."""
        if self._stored is None:
            assert self._pool is not None  # either decoded, or built
            self._stored = self._encoded(self._pool)
        return self._stored

    def _encoded(self, pool: StringPool) -> list[bytes]:
        header, config = self.header, self.config
        del header.parts[:]
        stored: list[bytes] = [b""]
        strings = pool.to_proto().SerializeToString()
        blobs.add_part(header.parts, stored, "strings", strings, columns_pb2.PART_FORMAT_STRINGS)
        for name, fields in STRUCTURE_TABLES.items():
            table: Table = getattr(self, name)
            message = table.to_proto(fields).SerializeToString()
            blobs.add_part(header.parts, stored, name, message, columns_pb2.PART_FORMAT_TABLE)
        if config is not None:
            text = json.dumps(config, sort_keys=True, default=str, ensure_ascii=False).encode("utf-8", "replace")
            if len(text) <= blobs.MAXIMUM_JSON_BYTES:
                blobs.add_part(header.parts, stored, "config", text, columns_pb2.PART_FORMAT_JSON)
            else:
                header.notes.append(f"The configuration of {len(text):,} bytes is too large and was left out.")
        blobs.seal(header, stored)
        return stored

    @classmethod
    def decode(cls, stored: Sequence[bytes]) -> Structure:
        """Read a record. Raises :class:`~tb_plugin_structure.records.blobs.RecordError` when it is damaged."""
        header = decode_header(stored)
        try:
            proto = columns_pb2.StringPool.FromString(blobs.part_bytes(header.parts, stored, "strings"))
            strings = Strings(proto)
            tables = {
                name: Table.from_proto(blobs.parse_table(blobs.part_bytes(header.parts, stored, name)), strings, fields)
                for name, fields in STRUCTURE_TABLES.items()
            }
            config = None
            if any(part.name == "config" for part in header.parts):
                config = json.loads(blobs.part_bytes(header.parts, stored, "config", blobs.MAXIMUM_JSON_BYTES))
            check_structure(tables)
            return cls(header, tables, config, stored)
        except blobs.RecordError:
            raise
        except Exception as error:  # protobuf's DecodeError, JSON and length errors: all mean one thing to a user
            raise blobs.RecordError(f"the structure record of {header.model!r} is damaged: {error}") from error

    # ---- queries

    @property
    def name(self) -> str:
        """Name of the model as the user gave it."""
        return self.header.model

    @cached_property
    def module_paths(self) -> list[str]:
        return self.modules.column_texts("path")

    @cached_property
    def module_classes(self) -> list[str]:
        return self.modules.column_texts("class_name")

    @cached_property
    def module_row(self) -> dict[str, int]:
        """Module path, aliases included -> row of `modules`."""
        rows = {path: row for row, path in enumerate(self.module_paths)}
        for row in range(self.modules.rows):
            for alias in self.modules.texts("aliases", row):
                rows.setdefault(alias, row)
        return rows

    @cached_property
    def call_children(self) -> list[Sequence[int]]:
        """For each module call, the calls made directly within it, in order."""
        return _children(self.module_calls["parent"].tolist())

    @cached_property
    def module_children(self) -> list[Sequence[int]]:
        """For each module, the modules registered on it."""
        return _children(self.modules["parent"].tolist())

    @cached_property
    def calls_of_module(self) -> dict[int, list[int]]:
        """Row of `modules` -> its calls, in order; modules that never ran are absent."""
        calls: dict[int, list[int]] = {}
        for call, module in enumerate(self.module_calls["module"].tolist()):
            calls.setdefault(module, []).append(call)
        return calls

    def call_path(self, call: int) -> str:
        """Path of the module that was called."""
        return self.module_paths[int(self.module_calls["module"][call])]

    def call_class(self, call: int) -> str:
        return self.module_classes[int(self.module_calls["module"][call])]

    def attributes(self, module: int) -> dict[str, str]:
        """Constructor-like attributes of a module, as text."""
        return dict(
            zip(
                self.modules.texts("attribute_names", module),
                self.modules.texts("attribute_values", module),
                strict=True,
            )
        )

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.tensors.values("shape", tensor).tolist())

    def symbolic_shape(self, tensor: int) -> tuple[str, ...] | None:
        """Each dimension of a tensor as an expression of the input dimensions: ``("B", "64", "(H+1)//2")``.

        None when the record has none for this tensor: it was made without ``symbolic=``, or the tensor's way through
        the model could not be followed. The names are those of ``header.symbolic.dimensions``.
        """
        if "symbolic" not in self.tensors:
            return None
        texts = tuple(self.tensors.texts("symbolic", tensor))
        return texts if len(texts) == len(self.tensors.values("shape", tensor)) else None

    def predict_shape(self, tensor: int, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The shape of a tensor for other input sizes, None when it is unknown.

        Args:
            tensor: Row of ``tensors``.
            sizes: Name -> size, e.g. ``{"B": 2, "H": 320, "W": 320}``. See :meth:`violated_conditions`.

        Raises:
            ValueError: When a size that matters is missing.
        """
        symbolic = self.symbolic_shape(tensor)
        return None if symbolic is None else tuple(predict(expression, sizes) for expression in symbolic)

    def violated_conditions(self, sizes: Mapping[str, int]) -> list[str]:
        """The conditions under which the model takes the way that was recorded and that do not hold for some sizes:
        there the model may fail, or make other shapes than predicted.

        Raises:
            ValueError: When a size that occurs in a condition is missing.
        """
        return [condition for condition in self.header.symbolic.conditions if not holds(condition, sizes)]

    def output_shapes(self, call: int) -> list[tuple[str, tuple[int, ...]]]:
        """(element name, shape) of each tensor that a module call returned."""
        return [
            (name, self.shape(tensor))
            for name, tensor in zip(
                self.module_calls.texts("output_names", call),
                self.module_calls.values("outputs", call).tolist(),
                strict=True,
            )
        ]

    @cached_property
    def parameter_elements(self) -> Array:
        """Elements of each parameter or buffer."""
        counts = np.ones(self.parameters.rows, np.int64)
        known: dict[bytes, int] = {}  # layers repeat a few shapes
        values, offsets = self.parameters["shape"], self.parameters.offsets("shape").tolist()
        for row, (begin, end) in enumerate(pairwise(offsets)):
            shape = values[begin:end].tobytes()
            if shape not in known:
                known[shape] = int(np.prod(values[begin:end], dtype=np.int64))
            counts[row] = known[shape]
        return counts

    def module_parameters(self, module: int) -> set[int]:
        """Rows of the parameters and buffers at or below a module; a tied tensor once.

        Made anew for each call: kept for every module, they would take the memory of the parameters times the depth.
        """
        own, children = self._own_parameters, self.module_children
        found = set(own[module])
        below = list(children[module])
        while below:
            inner = below.pop()
            found.update(own[inner])
            below += children[inner]
        return found

    @cached_property
    def _own_parameters(self) -> list[list[int]]:
        return self.modules.column_lists("parameters")

    def parameter_count(self, module: int) -> int:
        """Elements of the parameters at or below a module, tied ones once, buffers excluded."""
        return self._parameter_counts[module]

    @cached_property
    def _parameter_counts(self) -> list[int]:
        return subtree_totals(
            self.modules["parent"].tolist(),
            self._own_parameters,
            np.where(self.parameters["is_buffer"] != 0, 0, self.parameter_elements).tolist(),
        )

    def call_macs(self, call: int) -> float:
        """Multiply-accumulates within a module call, its children included; NaN when none has a formula."""
        return self._operator_sum("macs", call)

    def call_activation_bytes(self, call: int) -> float:
        """Bytes of new values made within a module call, its children included."""
        return self._operator_sum("activation_bytes", call)

    def _operator_sum(self, column: str, call: int) -> float:
        begin, end = int(self.module_calls["operator_begin"][call]), int(self.module_calls["operator_end"][call])
        values = self.operators[column][begin:end]
        if len(values) == 0:
            return 0.0
        known = values[~np.isnan(values)]
        return float(known.sum()) if len(known) else float("nan")

    @cached_property
    def operator_edges(self) -> Array:
        """Data flow between operators: an array [edges, 3] of (from operator, to operator, tensor).

        Values without a producing kernel (inputs, parameters, constants) give no edge.
        """
        producer = self.tensors["producer"]
        kernel_operator = self.kernels["operator"]
        offsets = self.operators.offsets("inputs").astype(np.int64)
        readers = np.repeat(np.arange(self.operators.rows, dtype=np.int64), np.diff(offsets))
        tensors = self.operators["inputs"].astype(np.int64)
        kernels = producer[tensors].astype(np.int64)
        made = kernels >= 0
        writers = kernel_operator[kernels[made]].astype(np.int64)
        return np.stack([writers, readers[made], tensors[made]], axis=1)

    def __repr__(self) -> str:
        totals = self.header.totals
        return (
            f"Structure({self.header.model!r}, {self.header.model_class}: {totals.modules:,} modules, "
            f"{totals.module_calls:,} calls, {totals.operators:,} operators, {totals.parameters:,} parameters)"
        )

    def __str__(self) -> str:
        """The module calls as a tree with shapes and costs, alike ones folded."""
        return tree_text(self)

    def to_text(self) -> str:
        """The structure as canonical text, one parameter, module call or operator a line: the same for equal
        structures, on every machine, so that it can be kept in a repository and compared with ``git diff``."""
        return canonical_text(self)


def _children(parents: list[int]) -> list[Sequence[int]]:
    """For each row, the rows whose parent it is, in order; most rows have none and share one empty tuple."""
    children: list[Sequence[int]] = [()] * len(parents)
    inside: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        if parent >= 0:
            inside.setdefault(parent, []).append(row)
    for parent, rows in inside.items():
        children[parent] = rows
    return children


def decode_header(stored: Sequence[bytes]) -> structure_pb2.StructureHeader:
    """Read only the header of a record."""
    data = blobs.check_header(stored, "structure")
    try:
        header = structure_pb2.StructureHeader.FromString(data)
    except Exception as error:
        raise blobs.RecordError(f"the header of a structure record is damaged: {error}") from error
    blobs.check_version("structure", header.minimum_reader_version)
    return header
