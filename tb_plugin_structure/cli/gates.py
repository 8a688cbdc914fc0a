"""``--fail-on``: what makes a command end with exit code 1, so that a pull request can be gated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit import AuditReport, registered_rules
from tb_plugin_structure.analysis.audit.compare import ADAPT, INCOMPATIBLE, UNMATCHED
from tb_plugin_structure.analysis.audit.findings import SEVERITIES
from tb_plugin_structure.v1 import alignment_pb2

_VERDICTS = {"adapt": ADAPT, "incompatible": INCOMPATIBLE, "unmatched": UNMATCHED}
ANY_CHANGE = "any-change"


class GateError(ValueError):
    """A gate that does not exist."""


def check_gates(gates: Sequence[str]) -> None:
    """Raise GateError when a gate is not known; the message lists what is."""
    for gate in gates:
        kind, colon, name = gate.partition(":")
        if gate in (*_VERDICTS, *SEVERITIES, ANY_CHANGE):
            continue
        if kind == "finding" and colon and name in registered_rules():
            continue
        raise GateError(
            f"--fail-on {gate!r}: expected {', '.join((*_VERDICTS, *SEVERITIES, ANY_CHANGE))} or finding:ID, where ID "
            f"is one of {', '.join(sorted(registered_rules()))}"
        )


def failures(report: AuditReport, gates: Sequence[str]) -> list[str]:
    """One sentence for each gate that the report does not pass."""
    found = []
    for gate in gates:
        if gate in _VERDICTS:
            rows = [row for row in report.rows if row.verdict == _VERDICTS[gate]]
            if gate == "incompatible":
                rows = [row for row in rows if row.comparison.is_refused_feature]
            if rows:
                first = rows[0].student_path or rows[0].teacher_path or "the model"
                found.append(f"{gate}: {_counted(len(rows), 'row')}, first {first}")
        elif gate in SEVERITIES:
            least = SEVERITIES.index(gate)
            items = [finding for finding in report.findings if SEVERITIES.index(finding.severity) >= least]
            if items:
                found.append(f"{gate}: {_counted(len(items), 'finding')}, first {items[0].rule}: {items[0].message}")
        elif gate.startswith("finding:"):
            items = [finding for finding in report.findings if finding.rule == gate.partition(":")[2]]
            if items:
                found.append(f"{gate}: {items[0].message}")
        elif gate == ANY_CHANGE:
            found += changes(report.alignment)
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def changes(alignment: Any) -> list[str]:
    """One sentence when the two structures are not identical."""
    kinds = alignment.pairs["kind"].tolist()
    changed = sum(kind != alignment_pb2.PAIR_KIND_IDENTICAL for kind in kinds)
    return [f"{ANY_CHANGE}: {changed} of {len(kinds)} module calls are not identical"] if changed else []
