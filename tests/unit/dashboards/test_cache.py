from __future__ import annotations

import threading
import time

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
