"""A worker waits for the slot that is still in the caches as long as that has proved to be quicker."""

import socket
import threading

import numpy as np
import pytest

from towerpack_dataflow.runtime._warmth import Warmth
from towerpack_dataflow.runtime._wire import Channel

LARGE = 2**25


def shares(plain, warm, size=LARGE, turns=400):
    """How often it waits, if it takes `plain` seconds without and `warm` with waiting."""
    warmth, waits = Warmth(), 0
    for _ in range(turns):
        wait = warmth.patience(size) > 0
        warmth.learn(wait, warm if wait else plain)
        waits += wait
    return waits / turns


def test_the_quicker_way_is_gone_and_the_other_one_tried_now_and_then():
    assert 0.9 < shares(plain=0.004, warm=0.003) < 0.99
    assert 0.01 < shares(plain=0.004, warm=0.005) < 0.1


def test_a_consumer_that_becomes_slow_is_noticed():
    warmth = Warmth()
    for _ in range(40):
        warmth.learn(warmth.patience(LARGE) > 0, 0.003)
    waits = 0
    for _ in range(200):
        wait = warmth.patience(LARGE) > 0
        warmth.learn(wait, 0.0045 if wait else 0.003)
        waits += wait
    assert waits < 20


@pytest.mark.parametrize(("plain", "size"), [(0.1, LARGE), (0.0001, 2**20), (0.004, 0)])
def test_nothing_waits_that_is_slow_to_make_or_small_or_not_out(plain, size):
    assert shares(plain, plain / 2, size) == 0


def test_patience_is_bounded_by_the_work():
    warmth = Warmth()
    for _ in range(10):
        warmth.learn(False, 0.008)
    assert 0 < warmth.patience(LARGE) <= 0.004


def test_what_is_missed_is_the_slot_that_was_sent_last_until_it_is_back():
    worker, parent = map(Channel, socket.socketpair())
    assert worker.pool.missed == 0
    worker.send("head", np.ones(LARGE, np.uint8))
    assert worker.pool.missed == LARGE
    received = parent.receive()[1].open()
    assert not worker.wait(0.01)
    del received
    threading.Timer(0.05, parent.give_back).start()
    assert worker.wait(5)
    worker.receive()
    assert worker.pool.missed == 0
    parent.close()
    assert worker.wait(5)
    worker.close()
