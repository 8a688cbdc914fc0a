"""A healthy pair, the words of every rule, and a user's own rules."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin_structure.analysis.audit import registered_rules, rule
from tb_plugin_structure.analysis.audit.findings import unregister

from .faulty_models import Small, found, frozen, record, warned


def test_a_healthy_pair_gives_no_warning() -> None:
    assert warned(found(record(frozen(Small())))) == set()


def test_every_rule_explains_itself_and_says_what_to_do() -> None:
    assert len(registered_rules()) >= 25
    for registered in registered_rules().values():
        assert registered.explanation.endswith("."), registered.id
        assert registered.fix.endswith("."), registered.id


# ---- registering and silencing


def test_a_users_rule_is_run_and_can_be_silenced_by_path() -> None:
    @rule("wide", severity="error", explanation="Too wide.", fix="Make it narrow.")
    def wide(context: Any) -> Any:
        yield context.student.found("conv is wide", "conv")

    try:
        teacher = record(frozen(Small()))
        finding = found(teacher)["wide"][0]
        assert (finding.severity, finding.explanation, finding.fix) == ("error", "Too wide.", "Make it narrow.")
        assert "wide" not in found(teacher, silence=["wide:con*"])
        assert "wide" in found(teacher, silence=["wide:fc"])
        assert found(teacher, severities={"wide": "info"})["wide"][0].severity == "info"
    finally:
        unregister("wide")


def test_a_rule_that_fails_does_not_hide_the_others() -> None:
    @rule("broken", severity="info", explanation="It fails.", fix="Nothing.")
    def broken(context: Any) -> Any:
        raise RuntimeError("no")

    try:
        findings = found(record(Small().train()))
        assert "RuntimeError: no" in findings["broken"][0].message
        assert "teacher-training-mode" in findings
    finally:
        unregister("broken")


def test_silencing_a_rule_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule 'ded-module'"):
        found(record(frozen(Small())), silence=["ded-module"])
