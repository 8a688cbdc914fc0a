"""Python's search for reference cycles, made rarer while a pass is recorded."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

ALLOCATIONS = 50_000
"""Objects between two searches. A recorded kernel leaves about eight objects and none of them dies: at Python's usual
700, looking through them again and again takes a tenth of the recording."""


class RarerCollections:
    """From :meth:`start` to :meth:`stop` the youngest generation is searched once in ``ALLOCATIONS`` objects.

    Not turned off: a pass that leaves cycles with large tensors in them is still cleaned up after. A program that has
    turned collection off, or changes the thresholds in between, is left alone.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None
        self._during: tuple[int, int, int] | None = None

    def start(self) -> None:
        before = gc.get_threshold()
        if gc.isenabled() and 0 < before[0] < ALLOCATIONS:
            self._before, self._during = before, (ALLOCATIONS, *before[1:])
            gc.set_threshold(*self._during)

    def stop(self) -> None:
        if self._before is not None and gc.get_threshold() == self._during:
            gc.set_threshold(*self._before)
        self._before = None


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No search at all while a record is put together: thousands of small objects are made and none dies."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
