"""A bounded cache that several request threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class _Making:
    """A value that is not there yet: held by whoever makes it, awaited by the others."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = 0


class BoundedCache:
    """Least recently used values are dropped when the sum of their sizes passes `maximum_bytes`.

    A value that two threads ask for at once is made once; the other waits for it.
    """

    def __init__(self, maximum_bytes: int) -> None:
        self.maximum_bytes = maximum_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def peek(self, key: Hashable) -> Any:
        """The value of `key`, or None when it is not there."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def get(self, key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
        """The value of `key`; `make` returns (value, its size in bytes) when it is not there.

        What `make` raises is raised, and nothing is kept.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                value: Value = self._entries[key][0]
                return value
            making = self._making.setdefault(key, _Making())
            making.waiting += 1
        try:
            with making.lock:
                with self._lock:
                    if key in self._entries:
                        value = self._entries[key][0]
                        return value
                value, size = make()
                self.put(key, value, size)
                return value
        finally:
            # The lock goes with the last who waits: one made anew beside it would let two make the value.
            with self._lock:
                making.waiting -= 1
                if not making.waiting:
                    del self._making[key]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of `size` bytes, and drop what was used least recently until all fit."""
        with self._lock:
            self._bytes += size - self._entries.get(key, (None, 0))[1]
            self._entries[key] = (value, size)
            self._entries.move_to_end(key)
            while self._bytes > self.maximum_bytes and len(self._entries) > 1:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped
