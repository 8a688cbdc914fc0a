"""The permanent names: data plugins, tabs, and tags inside an event file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

STRUCTURE_PLUGIN: Final = "structure_record"
MEASUREMENT_PLUGIN: Final = "structure_measurement"
ATTENTION_OVERVIEW_PLUGIN: Final = "structure_attention_overview"
ATTENTION_DETAIL_PLUGIN: Final = "structure_attention_detail"
PLAN_PLUGIN: Final = "structure_plan"
DATA_PLUGINS: Final = (
    STRUCTURE_PLUGIN,
    MEASUREMENT_PLUGIN,
    ATTENTION_OVERVIEW_PLUGIN,
    ATTENTION_DETAIL_PLUGIN,
    PLAN_PLUGIN,
)

ADD_GRAPH_PLUGIN: Final = "graphs"
"""TensorBoard's own data plugin, where ``SummaryWriter.add_graph`` writes."""

ADD_GRAPH_TAG: Final = "__run_graph__"
"""The tag under which both readers list a graph."""

GRAPH_DIFF_TAB: Final = "structure_graph_diff"
SHAPE_AUDIT_TAB: Final = "structure_shape_audit"
ATTENTION_TAB: Final = "structure_attention"


def quote(name: str) -> str:
    """Percent-encode what would split or break a tag: '/', '%', and control characters."""
    return re.sub(r"[/%\x00-\x1f\x7f]", lambda match: f"%{ord(match[0]):02X}", name)


def unquote(name: str) -> str:
    """The inverse of :func:`quote`."""
    return re.sub(r"%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), name)


def structure_tag(model: str, variant: str = "") -> str:
    return f"structure/{quote(model)}/{quote(variant)}" if variant else f"structure/{quote(model)}"


def outside_tag(region: str) -> str:
    return f"outside/{quote(region)}"


def measurement_tag(model: str, variant: str = "", series: str = "") -> str:
    """`series`: "" for what a recorded step measured, else another source with steps of its own ("monitor")."""
    parts = [model, variant, series]
    while not parts[-1] and len(parts) > 1:
        parts.pop()
    return "/".join(["measurement", *map(quote, parts)])


def attention_overview_tag(model: str, example: str = "") -> str:
    return f"overview/{quote(model)}/{quote(example)}" if example else f"overview/{quote(model)}"


def attention_detail_tag(model: str, module_path: str) -> str:
    return f"detail/{quote(model)}/{quote(module_path)}"


def plan_tag(teacher: str, student: str) -> str:
    return f"plan/{quote(teacher)}/{quote(student)}"


def variant_of(tag: str) -> str:
    """The variant that a structure's or a measurement's tag names; '' for the main one."""
    pieces = split_tag(tag)
    return pieces[2] if len(pieces) > 2 and pieces[0] in ("structure", "measurement") else ""


def of_variant(tags: Iterable[str], variant: str) -> dict[str, str]:
    """Model -> the measurement tag that goes with a variant: its own one, else that without a variant, else any. Series
    beside those of recorded steps are left out."""
    found: dict[str, str] = {}
    for tag in sorted(tags):
        if len(split_tag(tag)) > 3:
            continue
        model = split_tag(tag)[1]
        known = found.get(model)
        if known is None or (variant_of(tag) == variant and variant_of(known) != variant):
            found[model] = tag
    return found


def split_tag(tag: str) -> tuple[str, ...]:
    """('structure', model[, variant]) and so on, decoded."""
    return tuple(unquote(piece) for piece in tag.split("/"))
