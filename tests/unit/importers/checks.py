"""What every imported structure must be fit for."""

from __future__ import annotations

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.records.structure import Structure


def stored(structure: Structure) -> Structure:
    """The record as a reader gets it: decoding checks that its tables agree."""
    return Structure.decode(structure.encode())


def calls(structure: Structure) -> list[tuple[str, int]]:
    parents = structure.module_calls["parent"].tolist()
    return [(structure.call_path(call), parents[call]) for call in range(structure.module_calls.rows)]


def operator(structure: Structure, name: str, number: int = 0) -> int:
    names = structure.operators.column_texts("name")
    return [row for row, each in enumerate(names) if each == name][number]


def flows(structure: Structure, source: int, target: int) -> bool:
    return (source, target) in {(a, b) for a, b, _ in structure.operator_edges.tolist()}


def check_analyses(structure: Structure) -> None:
    """Alignment with itself finds no change, and the audit runs."""
    alignment = align(teacher=structure, student=structure)
    assert alignment.summary().startswith("Nothing changed")
    assert audit(alignment).to_markdown()
