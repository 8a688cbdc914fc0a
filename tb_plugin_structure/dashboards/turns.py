"""Large computations take turns, so that their intermediate results are in memory one at a time."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

_LOOK_AGAIN_S = 0.5


class Gone(Exception):
    """Who asked has closed the connection: nobody waits for the answer any more."""


class Turns:
    """First come, first served. Python runs one computation after the other anyway; side by side each would hold its
    intermediate results. Not to be nested."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in the queue, the one whose turn it is included."""
        return len(self._queue)

    @contextlib.contextmanager
    def turn(self, is_gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait for one's turn, and have it.

        Raises:
            Gone: When `is_gone` says, while waiting, that nobody wants the answer: who closes a tab holds up no other.
        """
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            while True:
                with self._changed:
                    if self._queue[0] is ticket:
                        break
                    self._changed.wait(_LOOK_AGAIN_S)
                if is_gone():
                    raise Gone
            if is_gone():
                raise Gone
            yield
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()


def give_back_memory() -> None:
    """Hand freed memory to the system. glibc keeps blocks of up to 32 MiB once such were freed, for each thread that
    allocated, and every request has a thread of its own: without this a server keeps several hundred MiB."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
