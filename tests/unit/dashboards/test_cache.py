from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

import pytest

from tb_plugin_structure.dashboards.cache import BoundedCache


def test_the_least_recently_used_value_goes_first() -> None:
    cache = BoundedCache(100)
    for key in "abc":
        cache.get(key, lambda key=key: (key, 40))
    assert cache.bytes == 80
    made: list[str] = []
    assert cache.get("b", lambda: (made.append("b"), 40)) == "b"
    cache.get("a", lambda: (made.append("a") or "a", 40))
    assert made == ["a"]
    assert cache.bytes <= 100


def test_a_value_larger_than_the_cache_is_served_and_replaced_by_the_next() -> None:
    cache = BoundedCache(10)
    assert cache.get("large", lambda: ("large", 1000)) == "large"
    assert cache.get("small", lambda: ("small", 1)) == "small"
    assert cache.bytes == 1


def test_two_threads_make_a_value_once() -> None:
    cache = BoundedCache(100)
    made: list[int] = []

    def make() -> tuple[str, int]:
        made.append(1)
        time.sleep(0.05)
        return "value", 1

    threads = [threading.Thread(target=lambda: cache.get("key", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_a_failure_is_raised_and_not_kept() -> None:
    cache = BoundedCache(100)

    def fail() -> tuple[str, int]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("key", fail)
    assert cache.get("key", lambda: ("yes", 1)) == "yes"


class _SlowToPut(BoundedCache):
    """Between a value that was made and its place in the cache, somebody else asks for it."""

    meanwhile: Callable[[], Any]
    asking: threading.Thread | None = None

    def put(self, key: Hashable, value: Any, size: int) -> None:
        if self.asking is None:
            self.asking = threading.Thread(target=self.meanwhile)
            self.asking.start()
            self.asking.join(0.2)  # it must wait; one that does not is done by then
        super().put(key, value, size)


def test_who_asks_just_before_a_value_is_kept_does_not_make_it_again() -> None:
    cache = _SlowToPut(100)
    made: list[int] = []

    def make() -> tuple[str, int]:
        made.append(1)
        return "value", 1

    cache.meanwhile = lambda: cache.get("key", make)
    assert cache.get("key", make) == "value"
    assert cache.asking is not None
    cache.asking.join()
    assert made == [1]


def test_after_a_failure_who_waited_and_who_comes_later_take_turns() -> None:
    cache = BoundedCache(100)
    failing, begun, others = threading.Event(), threading.Event(), threading.Event()
    at_once, most = [0], [0]

    def fail() -> tuple[str, int]:
        begun.set()
        failing.wait(5)
        raise ValueError("no")

    def make() -> tuple[str, int]:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        others.set()
        time.sleep(0.05)
        at_once[0] -= 1
        raise ValueError("still no")

    def ask(how: Callable[[], tuple[str, int]]) -> None:
        with contextlib.suppress(ValueError):
            cache.get("key", how)

    threads = [threading.Thread(target=ask, args=(fail,))]
    threads[0].start()
    begun.wait(5)
    threads.append(threading.Thread(target=ask, args=(make,)))
    threads[1].start()
    time.sleep(0.05)  # it waits for the first by now
    failing.set()
    others.wait(5)
    threads += [threading.Thread(target=ask, args=(make,)) for _ in range(4)]
    for thread in threads[2:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
