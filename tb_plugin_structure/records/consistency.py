"""What must hold between the tables of a structure, so that no reader of it meets a surprise.

Everything that follows (queries, alignment, audit, the browser) relies on these checks and repeats none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tb_plugin_structure.records.schema import ORIGINS
from tb_plugin_structure.records.table import Table

MAXIMUM_DEPTH_BITS = 12
"""Modules and calls nest at most 2 ** 12 deep. Python allows about 300 module calls, unless one raises its limit."""

_REFERENCES = (
    ("modules", "parameters", "parameters"),
    ("module_calls", "module", "modules"),
    ("module_calls", "inputs", "tensors"),
    ("module_calls", "outputs", "tensors"),
    ("operators", "call", "module_calls"),
    ("operators", "inputs", "tensors"),
    ("operators", "outputs", "tensors"),
    ("kernels", "operator", "operators"),
    ("kernels", "inputs", "tensors"),
    ("kernels", "also_reads", "tensors"),
    ("kernels", "outputs", "tensors"),
)
_OPTIONAL_REFERENCES = (("tensors", "producer", "kernels"), ("tensors", "parameter", "parameters"))
_RANGES = (
    ("module_calls", "operator_begin", "operator_end", "operators"),
    ("operators", "kernel_begin", "kernel_end", "kernels"),
)
_LISTS_OF_ONE_LENGTH = (
    ("modules", "attribute_names", "attribute_values"),
    ("module_calls", "inputs", "input_names"),
    ("module_calls", "outputs", "output_names"),
    ("operators", "attribute_names", "attribute_values"),
)


def check_structure(tables: Mapping[str, Table]) -> None:
    """Raises ValueError, naming the column, when references between tables lead nowhere or trees have cycles."""
    for table in ("modules", "module_calls"):
        _check_tree(table, tables[table])
    for table, column, target in _REFERENCES:
        values = tables[table][column]
        if len(values) and int(values.max()) >= tables[target].rows:
            raise ValueError(f"{table}.{column} names a row beyond the {tables[target].rows} of {target}")
    for table, column, target in _OPTIONAL_REFERENCES:
        values = tables[table][column]
        if len(values) and (int(values.min()) < -1 or int(values.max()) >= tables[target].rows):
            raise ValueError(f"{table}.{column} names a row of {target} that does not exist")
    for table, begin, end, target in _RANGES:
        low, high = tables[table][begin], tables[table][end]
        if len(low) and ((low > high).any() or int(high.max()) > tables[target].rows):
            raise ValueError(f"{table}.{begin} and {end} do not fit the {tables[target].rows} rows of {target}")
    for table, first, second in _LISTS_OF_ONE_LENGTH:
        if not np.array_equal(tables[table].offsets(first), tables[table].offsets(second)):
            raise ValueError(f"{table}.{first} and {second} have lists of different lengths")
    for table in ("parameters", "tensors"):
        shape = tables[table]["shape"]
        if len(shape) and int(shape.min()) < -1:
            raise ValueError(f"{table}.shape has a negative size")
    origins = tables["tensors"]["origin"]
    if len(origins) and int(origins.max()) >= len(ORIGINS):
        raise ValueError("tensors.origin has a value that is not known")


def _check_tree(name: str, table: Table) -> None:
    """Row 0 is a root (the only one of modules; a model may be called several times), and every row comes after its
    parent."""
    parents = table["parent"].astype(np.int64)
    if len(parents) == 0 or parents[0] != -1:
        raise ValueError(f"{name}.parent does not form a tree that begins with the model")
    if (parents >= np.arange(len(parents))).any() or (parents < -1).any():
        raise ValueError(f"{name}.parent does not form a tree")
    if name == "modules" and (parents[1:] < 0).any():
        raise ValueError("modules.parent does not form a tree: there is a module outside the model")
    ancestors = parents
    for _ in range(MAXIMUM_DEPTH_BITS):
        # Twice as many generations up in each round; a root's ancestor is -1.
        ancestors = np.where(ancestors >= 0, ancestors[ancestors], -1)
    if (ancestors >= 0).any():
        raise ValueError(f"{name} are nested more than {1 << MAXIMUM_DEPTH_BITS:,} deep")
