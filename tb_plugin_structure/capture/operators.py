"""Kernels in a row from one call site become one operator, with a name, a source line and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tb_plugin_structure.capture.call_sites import (
    Site,
    source_location,
    source_text,
    split_repetitions,
    written_at,
)
from tb_plugin_structure.capture.events import Kernel
from tb_plugin_structure.capture.kernels import KernelFacts

MAXIMUM_ATTRIBUTE_TEXT = 200

_PREPARING = frozenset(
    {
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "alias",
        "detach",
        "clone",
        "_to_copy",
        "as_strided",
        "unbind",
        "split",
        "split_with_sizes",
        "contiguous",
        "lift_fresh",
        "empty",
    }
)
"""Kernels that prepare or hand on; another kernel of the group names it when the source does not."""

_PLAIN_NAMES = {"_local_scalar_dense": "item", "native_layer_norm": "layer_norm", "_to_copy": "to"}


class Operator(NamedTuple):
    """A run of kernels: positions ``[begin, end)`` of the list it was made from.

    Attributes:
        uncertain: Whether the borders are a guess.
    """

    begin: int
    end: int
    name: str
    source: str
    uncertain: bool


class OperatorNames:
    """Names and sources of call sites, remembered over a region."""

    def __init__(self, sites: Sequence[Site], source: str) -> None:
        self._sites = sites
        self._source = source
        self._sources: dict[int, str] = {}
        self._groups: dict[tuple[Any, ...], tuple[str, int, bool]] = {}

    def operators(self, kernels: Sequence[Kernel], sites: Sequence[int], groups: Sequence[int]) -> list[Operator]:
        """Group kernels, given in the order in which they ran, with the numbers of their sites and groups."""
        found: list[Operator] = []
        begin = 0
        for _, members in groupby(groups):
            stop = begin + sum(1 for _ in members)
            facts = [kernel[0] for kernel in kernels[begin:stop]]
            site = sites[begin]
            key = (site, *map(id, facts))
            known = self._groups.get(key)
            if known is None:
                known = self._groups[key] = self._read(self._sites[site], facts)
            name, period, uncertain = known
            source = self._sources.get(site)
            if source is None:
                source = self._sources[site] = self._location(self._sites[site])
            for start in range(begin, stop, period):
                found.append(Operator(start, min(start + period, stop), name, source, uncertain))
            begin = stop
        return found

    def _read(self, site: Site, facts: Sequence[KernelFacts]) -> tuple[str, int, bool]:
        """(name, kernels per execution, whether that is a guess) of a group."""
        packets = [fact.packet.rpartition("::")[2] for fact in facts]
        written = written_at(*site[0]) if site and self._source != "none" else None
        name = written.name if written is not None else ""
        if written is None or not written.certain:
            # A variable's name says little ("act", "fn") unless it is part of what ran.
            name = name if name and any(name in packet for packet in packets) else name_of_kernels(packets)
        period, uncertain = split_repetitions(site, name, [fact.name for fact in facts])
        return name, period, uncertain

    def _location(self, site: Site) -> str:
        if self._source == "none" or not site:
            return ""
        location = source_location(site)
        return f"{location}  {source_text(site)}".rstrip() if self._source == "text" else location


def name_of_kernels(packets: Sequence[str]) -> str:
    """Name of an operator whose source does not name it: its last kernel that does more than prepare."""
    telling = [packet for packet in packets if packet not in _PREPARING]
    name = (telling or packets)[-1]
    return _PLAIN_NAMES.get(name, name)


_KEEPS = 0.5
"""The probability that torch leaves out of the kernel's arguments, as it is their default."""


class Attributes:
    """Arguments that are not tensors, as text; equal kernels are read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[list[str], list[str]]] = {}

    def of(self, kernels: Sequence[Kernel], encoded: Sequence[str]) -> tuple[list[str], list[str]]:
        """(names, values) of an operator's kernels, those that do more than prepare first of all."""
        telling = [at for at, kernel in enumerate(kernels) if kernel[0].packet.rpartition("::")[2] not in _PREPARING]
        chosen = telling or [0]
        if len(chosen) == 1:
            return self._read(kernels[chosen[0]], encoded[chosen[0]])
        names: dict[str, str] = {}
        drawn = next((at for at in chosen if kernels[at][0].packet == "aten::bernoulli_"), None)
        if (
            drawn is not None
        ):  # dropout: it draws with the probability to keep a value, the user gave the one to drop it
            keeps = (*kernels[drawn][4], _KEEPS)[1]
            return ["p"], [f"{1 - keeps:.6g}" if isinstance(keeps, float) else "?"]
        for at in chosen:
            for name, value in zip(*self._read(kernels[at], encoded[at]), strict=True):
                names.setdefault(name, value)
        return list(names), list(names.values())

    def _read(self, kernel: Kernel, encoded: str) -> tuple[list[str], list[str]]:
        facts: KernelFacts = kernel[0]
        key = (id(facts), encoded)
        known = self._known.get(key)
        if known is not None:
            return known
        found: dict[str, str] = {}
        for name, value in zip(facts.argument_names, kernel[4], strict=False):
            text = _attribute_text(value)
            if text is not None:
                found[name] = text
        for name, value in (kernel[5] or {}).items():
            text = _attribute_text(value)
            if text is not None:
                found.setdefault(name, text)
        known = self._known[key] = (list(found), list(found.values()))
        return known


def _attribute_text(value: Any) -> str | None:
    if value is None or isinstance(value, dict):
        return None
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, dict) for item in value) or not value:
            return None
        return ("[" + ", ".join(str(item) for item in value) + "]")[:MAXIMUM_ATTRIBUTE_TEXT]
    return str(value).removeprefix("torch.")[:MAXIMUM_ATTRIBUTE_TEXT]
