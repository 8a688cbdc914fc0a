"""Large computations take turns; who left holds up nobody."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query
from tb_plugin_structure.dashboards.turns import Gone, Turns


def wait_until_waiting(turns: Turns, number: int) -> None:
    deadline = time.monotonic() + 20
    while turns.waiting < number:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_at_a_time_in_the_order_of_asking() -> None:
    turns, order, running = Turns(), [], []

    def work(number: int) -> None:
        with turns.turn():
            running.append(number)
            assert len(running) == 1
            time.sleep(0.02)
            order.append(number)
            running.remove(number)

    threads = []
    for number in range(6):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        while turns.waiting < 1 and len(order) <= number:
            time.sleep(0.001)
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4, 5]
    assert turns.waiting == 0


def test_who_left_gives_up_the_place_and_the_next_one_runs() -> None:
    turns, left, done = Turns(), threading.Event(), []

    def impatient() -> None:
        with pytest.raises(Gone), turns.turn(left.is_set):
            done.append("impatient")

    def patient() -> None:
        with turns.turn():
            done.append("patient")

    with turns.turn():
        threads = [threading.Thread(target=impatient), threading.Thread(target=patient)]
        for number, thread in enumerate(threads):
            thread.start()
            wait_until_waiting(turns, 2 + number)
        left.set()
    for thread in threads:
        thread.join()
    assert done == ["patient"]


def test_a_failure_passes_the_turn_on() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"), turns.turn():
        raise ValueError("no")
    with turns.turn():
        pass


def test_a_closed_connection_is_seen() -> None:
    server, client = socket.socketpair()
    with server, client:
        query = Query(wrappers.Request({"REQUEST_METHOD": "GET", "werkzeug.socket": server}))
        assert not query.is_gone()
        client.sendall(b"GET / HTTP/1.1\r\n")  # the next request on the same connection
        assert not query.is_gone()
        server.recv(100)
        client.close()
        assert query.is_gone()


def test_without_a_connection_to_look_at_nobody_is_gone() -> None:
    assert not Query(wrappers.Request({"REQUEST_METHOD": "GET"})).is_gone()
