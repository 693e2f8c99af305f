"""A worker waits for the slot in the caches as long as that is faster."""

import contextlib
import socket
import threading

import numpy as np
import pytest

from towerpack_dataflow import Epoch
from towerpack_dataflow.runtime.transport import (
    Channel,
    CopyThread,
    PeerGoneError,
    SlotPool,
    SlotReusePolicy,
    StagedRows,
)
from towerpack_dataflow.runtime.worker._task_handler import PassSpec, TaskHandler, TaskResult
from towerpack_dataflow.runtime.worker._worker_loop import WorkerLoop

LARGE = 2**25


def waits(policy, plain, warm, size=LARGE, turns=1000):
    """How often it waits, if it takes `plain` seconds without and `warm(turn in a row)` with waiting."""
    count = in_a_row = 0
    for _ in range(turns):
        wait = policy.patience(size) > 0
        in_a_row = in_a_row + 1 if wait else 0
        policy.learn(wait, warm(in_a_row) if wait else plain)
        count += wait
    return count / turns


def always(seconds):
    return lambda _: seconds


def test_the_quicker_way_is_gone_and_waiting_tried_now_and_then():
    assert waits(SlotReusePolicy(), 0.004, always(0.003)) > 0.98
    policy = SlotReusePolicy()
    assert waits(policy, 0.004, always(0.005)) < 0.2
    assert 0.01 < waits(policy, 0.004, always(0.005), turns=10_000) < 0.04


def test_a_cache_has_time_to_learn():
    assert waits(SlotReusePolicy(), 0.004, lambda turn: 0.003 + 0.004 * 0.9**turn) > 0.98


def test_a_turn_that_something_else_held_up_changes_nothing():
    assert waits(SlotReusePolicy(), 0.004, lambda turn: 0.02 if turn % 10 == 0 else 0.003) > 0.98


def test_a_consumer_that_becomes_slow_is_noticed():
    policy = SlotReusePolicy()
    waits(policy, 0.004, always(0.003))
    waits(policy, 0.004, always(0.0045), turns=110)
    assert waits(policy, 0.004, always(0.0045), turns=400) == 0


def test_waiting_that_was_worth_it_is_soon_tried_again():
    policy = SlotReusePolicy()
    waits(policy, 0.004, always(0.003))
    waits(policy, 0.004, always(0.0045), turns=110)
    assert waits(policy, 0.004, always(0.003), turns=2000) > 0.7


def test_a_cache_used_by_another_process_has_time_to_recover():
    policy = SlotReusePolicy()
    waits(policy, 0.004, always(0.003))
    for _ in range(3):
        assert waits(policy, 0.004, lambda turn: 0.003 + 0.004 * 0.95**turn, turns=300) == 1


def test_an_interrupted_trial_starts_over():
    policy = SlotReusePolicy()
    waits(policy, 0.004, always(0.006), turns=100)
    policy.interrupt()
    assert waits(policy, 0.004, always(0.006), turns=90) == 1
    assert waits(policy, 0.004, always(0.003), turns=100) == 1


@pytest.mark.parametrize(("plain", "size"), [(0.1, LARGE), (0.0001, 2**20), (0.004, 0)])
def test_nothing_waits_that_is_slow_to_make_or_small_or_not_out(plain, size):
    assert waits(SlotReusePolicy(), plain, always(plain / 2), size) == 0


def test_patience_is_bounded_by_the_work():
    policy = SlotReusePolicy()
    for _ in range(20):
        policy.learn(False, 0.008)
    assert 0 < policy.patience(LARGE) <= 0.004


def test_slots_are_lent_until_they_are_back():
    worker, parent = map(Channel, socket.socketpair())
    assert (worker.slots.lent, worker.slots.newest) == (0, 0)
    worker.send("head", np.ones(LARGE, np.uint8))
    assert (worker.slots.lent, worker.slots.newest) == (1, LARGE)
    received = parent.receive()[1].open()
    assert not worker.wait(0.01)
    del received
    threading.Timer(0.05, parent.give_back).start()
    assert worker.wait(5)
    worker.receive()
    assert (worker.slots.lent, worker.slots.newest) == (0, LARGE)
    parent.close()
    assert worker.wait(5)
    worker.close()


def test_only_a_slot_that_a_cache_may_hold_is_written_row_by_row():
    pool = SlotPool(CopyThread(bypasses=True))
    fields = [((512, 2**16), np.dtype(np.uint8))]

    def staged():
        (buffer,) = pool.allocate(fields)
        rows, finish = pool.rows(buffer)
        rows[0] = 1
        finish()
        pool.settle(set())
        return isinstance(rows, StagedRows)

    assert staged()
    assert staged()  # the same slot, but nobody has seen to it that a cache holds it
    pool.trusts_caches = True
    assert not staged()
    pool.allocate(fields)  # out, so that the next one takes another slot
    assert staged()
    assert not staged()
    pool.trusts_caches = pool.bypasses_caches = False
    assert not staged()


def test_only_what_is_made_at_memory_speed_is_collected_past_the_caches():
    policy = SlotReusePolicy()
    assert not policy.at_memory_speed(LARGE)
    waits(policy, LARGE / 6e9, always(1.0))
    assert policy.at_memory_speed(LARGE)
    waits(policy, LARGE / 1e9, always(1.0))
    assert not policy.at_memory_speed(LARGE)


class Ones(TaskHandler):
    """Large arrays."""

    def __init__(self):
        super().__init__("raise")
        self.passes = set()

    def contents(self):
        return {}

    def in_thread(self):
        return self

    def open(self, number, spec):
        self.passes.add(number)

    def close(self, number):
        self.passes.remove(number)

    def make(self, number, begin, end, inputs):
        assert number in self.passes
        return TaskResult(number, begin, end), [np.ones(LARGE, np.uint8)]


class Patient:
    """Always waits for a slot; says when it begins to."""

    def __init__(self):
        self.began = threading.Event()

    def patience(self, size):
        if size:
            self.began.set()
        return 30.0 if size else 0.0

    def at_memory_speed(self, size):
        return True

    def learn(self, waited, seconds):
        pass


def until_hung_up(loop):
    with contextlib.suppress(PeerGoneError):
        loop.run()


@pytest.mark.timeout(180)
def test_a_consumer_may_leave_while_the_worker_waits_for_its_slot():
    patient = Patient()
    worker, parent = map(Channel, socket.socketpair())
    loop = WorkerLoop(worker, Ones(), slot_reuse=patient)
    thread = threading.Thread(target=until_hung_up, args=(loop,))
    thread.start()
    parent.send(("open", 7, tuple(PassSpec.of(Epoch(0, 0), None))))
    parent.send(("task", 7, 0, 1))
    head, delivery = parent.receive()
    assert TaskResult(*head).end == 1
    parent.send(("task", 7, 1, 2))
    assert patient.began.wait(20)
    parent.send(("close", 7))  # while its slot is still here
    del delivery
    parent.give_back()
    head, _ = parent.receive()
    assert (TaskResult(*head).begin, TaskResult(*head).end) == (1, 1)
    parent.close()
    thread.join()
    worker.close()
