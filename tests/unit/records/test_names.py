from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tb_plugin_structure.records import names


def test_tags_are_as_documented() -> None:
    assert names.structure_tag("teacher") == "structure/teacher"
    assert names.structure_tag("teacher", "eval") == "structure/teacher/eval"
    assert names.structure_tag("a/b") == "structure/a%2Fb"
    assert names.attention_detail_tag("student", "encoder.layer.0") == "detail/student/encoder.layer.0"
    assert names.plan_tag("teacher", "student") == "plan/teacher/student"


@given(st.text())
def test_quoting_can_be_undone_and_never_splits_a_tag(name: str) -> None:
    quoted = names.quote(name)
    assert names.unquote(quoted) == name
    assert "/" not in quoted
    assert names.split_tag(names.structure_tag("m", name or "v"))[2] == (name or "v")
