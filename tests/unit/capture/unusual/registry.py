"""Where models that do unusual things are gathered, by the name of the function that makes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.capture.hard.registry import Case

UNUSUAL: dict[str, Callable[[], Case]] = {}


def unusual(make: Callable[[], Case]) -> Callable[[], Case]:
    UNUSUAL[make.__name__] = make
    return make
