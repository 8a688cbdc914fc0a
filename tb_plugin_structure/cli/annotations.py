"""Findings and refusals for machines: GitHub workflow commands and SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from tb_plugin_structure.analysis.audit import AuditReport

#: A source as findings name it, "(models/student.py:12)"; no "(<stdin>:1)", which is no file.
_SOURCE = re.compile(r"\(([^()<>]+):(\d+)\)")
_GITHUB = {"info": "notice", "warning": "warning", "error": "error"}
_SARIF = {"info": "note", "warning": "warning", "error": "error"}
_PROBLEM = {"info": "recommendation", "warning": "warning", "error": "error"}
INCOMPATIBLE_RULE = "incompatible-pair"


class Annotation(NamedTuple):
    """One thing to show; `file` is "" where the record names no source."""

    rule: str
    severity: str
    message: str
    module_path: str
    explanation: str
    fix: str
    file: str = ""
    line: int = 0
    subject: str = "student"


def annotated(report: AuditReport) -> Iterator[Annotation]:
    """All findings, and every pair that cannot be adapted."""
    for finding in report.findings:
        found = _SOURCE.search(finding.message)
        yield Annotation(
            finding.rule,
            finding.severity,
            finding.message,
            finding.module_path,
            finding.explanation,
            finding.fix,
            found[1] if found else "",
            int(found[2]) if found else 0,
            finding.subject,
        )
    for row in report.rows:
        if row.comparison.is_refused_feature:
            yield Annotation(
                INCOMPATIBLE_RULE,
                "warning",
                f"{row.student_path or 'the student'} against {row.teacher_path or 'the teacher'}: {row.cause}",
                row.student_path,
                "The two features cannot be compared, and no adapter would make the comparison honest.",
                "Pin the student's module to another one of the teacher, or leave the pair out.",
            )


def github_text(report: AuditReport) -> str:
    """Workflow commands, one a line: GitHub shows them on the pull request."""
    lines = []
    for item in annotated(report):
        place = f"file={_property(item.file)},line={item.line}," if item.file else ""
        title = _property(f"{item.rule} {item.module_path}".strip())
        lines.append(f"::{_GITHUB[item.severity]} {place}title={title}::{_data(f'{item.message}. {item.fix}')}")
    return "\n".join(lines) + ("\n" if lines else "")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif_text(report: AuditReport) -> str:
    """A SARIF log, https://docs.oasis-open.org/sarif/sarif/v2.1.0/, with what code scanning on GitHub asks for."""
    items = list(annotated(report))
    ids = list(dict.fromkeys(item.rule for item in items))
    rules = [_rule(next(item for item in items if item.rule == rule)) for rule in ids]
    seen: Counter[str] = Counter()
    results = []
    for item in items:
        fingerprint = _fingerprint(item)
        seen[fingerprint] += 1
        results.append(
            {
                "ruleId": item.rule,
                "ruleIndex": ids.index(item.rule),
                "level": _SARIF[item.severity],
                "message": {"text": f"{item.message}. {item.fix}"},
                "locations": [_location(item)],
                "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:{seen[fingerprint]}"},
            }
        )
    driver = {"name": "tb-structure", "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _rule(item: Annotation) -> dict[str, Any]:
    return {
        "id": item.rule,
        "shortDescription": {"text": item.rule.replace("-", " ").capitalize()},
        "fullDescription": {"text": item.explanation},
        "help": {"text": item.fix},
        "defaultConfiguration": {"level": _SARIF[item.severity]},
        "properties": {"problem.severity": _PROBLEM[item.severity], "tags": ["distillation"]},
    }


def _fingerprint(item: Annotation) -> str:
    """Equal for the same finding at the same module, whatever its numbers and the line it now stands on: code scanning
    then knows that it is not a new one."""
    return hashlib.sha256("\0".join((item.rule, item.subject, item.module_path)).encode()).hexdigest()[:16]


def _location(item: Annotation) -> dict[str, Any]:
    # Code scanning on GitHub drops a result without a file: where the record names none, the module stands for it.
    uri = item.file or (item.module_path or "model").replace(".", "/")
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(uri.lstrip("/"))},
            "region": {"startLine": max(1, item.line)},
        },
        "logicalLocations": [{"fullyQualifiedName": item.module_path or "(model)", "kind": "module"}],
    }
