"""The identity of a structure: equal digests mean that the same thing ran."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.table import Table

_TEXTS = {
    "modules": ("path", "class_name"),
    "parameters": ("path", "dtype"),
    "operators": ("name",),
    "kernels": ("name",),
    "tensors": ("dtype",),
}
_TEXT_LISTS = {
    "modules": ("attribute_names", "attribute_values"),
    "module_calls": ("input_names", "output_names"),
    "operators": ("attribute_names", "attribute_values"),
}
_NUMBERS = {
    "modules": ("parent",),
    "parameters": ("shape",),
    "module_calls": ("module", "parent", "inputs", "outputs"),
    "operators": ("call", "inputs", "outputs"),
    "kernels": ("inputs", "also_reads", "outputs"),
    "tensors": ("shape", "producer"),
}


def structure_hash(tables: Mapping[str, Table]) -> str:
    """Digest over names, classes, attributes, calls, operators and shapes; 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in STRUCTURE_TABLES:
        table = tables[name]
        for column in _TEXTS.get(name, ()):
            digest.update("\0".join(table.column_texts(column)).encode("utf-8", "replace"))
        for column in _TEXT_LISTS.get(name, ()):
            digest.update("\0".join(table.column_texts(column)).encode("utf-8", "replace"))
            digest.update(table.offsets(column).tobytes())
        for column in _NUMBERS.get(name, ()):
            digest.update(table[column].tobytes())
    return digest.hexdigest()[:32]
