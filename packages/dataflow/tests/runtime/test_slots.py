import contextlib
import os
import pickle
import resource
import socket
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resources import open_files

from towerpack_dataflow.runtime.transport import (
    Channel,
    ColumnTable,
    PeerGoneError,
    SlotBlock,
    SlotPool,
    from_table,
    to_table,
)
from towerpack_dataflow.testing import same

BIG = 2**20


@pytest.fixture
def ends():
    one, other = map(Channel, socket.socketpair())
    yield one, other
    one.close()
    other.close()


def pass_on(ends, value):
    ends[0].send("head", value)
    head, delivery = ends[1].receive()
    assert head == "head"
    return delivery


def number_of_slots(channel):
    return channel.slots._made


@pytest.mark.parametrize(
    "value",
    [
        [1, "two", None],
        {"image": np.arange(BIG, dtype=np.uint8), "nested": [(np.ones(3000), {"deep": np.zeros(9000)})]},
        [np.asfortranarray(np.arange(40000.0).reshape(200, 200)), np.arange(40000)[::2]],
        [b"x" * 10**6, "y" * 10**6],
        [np.array(["a", None, {}], dtype=object), np.empty((0, 5)), np.float32(3)],
        [bytearray(b"abc" * 10**5), np.arange(9999, dtype=">i4")],
    ],
)
def test_anything_arrives_as_it_was(ends, value):
    assert same(pass_on(ends, value).open(), value)


def test_arrays_are_aligned_writable_views(ends):
    value = [np.ones(5001, np.uint8), np.ones((70, 70)), np.ones(4099, np.int16)]
    for array in pass_on(ends, value).open():
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable
        assert not array.flags.owndata


def test_a_read_only_array_stays_so(ends):
    array = np.ones(BIG)
    array.flags.writeable = False
    assert not pass_on(ends, [array]).open()[0].flags.writeable


def test_one_slot_serves_all_messages_that_are_let_go(ends):
    for number in range(20):
        received = pass_on(ends, np.full(BIG, number, np.uint8)).open()
        assert received[number] == number
        del received
        ends[1].give_back()
        assert ends[0].receive(wait=False) is not None or number == 0
    assert number_of_slots(ends[0]) == 1


@pytest.mark.parametrize(
    "derive", [lambda a: a[5:9], lambda a: a.T, lambda a: a.reshape(-1)[::7][1:], lambda a: memoryview(a)]
)
def test_a_slot_is_not_written_while_any_view_of_it_lives(ends, derive):
    kept = derive(pass_on(ends, np.full((1024, 1024), 7, np.uint8)).open())
    for number in range(5):
        pass_on(ends, np.full((1024, 1024), number, np.uint8)).open()
        ends[1].send("returns")
        ends[0].receive()
    assert (np.asarray(kept) == 7).all()
    assert number_of_slots(ends[0]) == 2


def test_an_unopened_message_returns_its_slot(ends):
    for _ in range(3):
        delivery = pass_on(ends, np.ones(BIG))
        del delivery
        ends[1].send("returns")
        ends[0].receive()
    assert number_of_slots(ends[0]) == 1


def test_a_consumer_that_hoards_gets_copies_and_sees_no_change():
    one, other = socket.socketpair()
    sender, receiver = Channel(one), Channel(other, lend=3 * BIG)
    kept = []
    for number in range(50):
        sender.send("head", np.full(BIG, number, np.uint8))
        kept.append(receiver.receive()[1].open())
        receiver.send("returns")
        sender.receive()
    assert sender.slots._made <= 6
    assert all((array == number).all() for number, array in enumerate(kept))
    assert all(array.ctypes.data % 64 == 0 for array in kept)
    sender.close()
    receiver.close()
    assert all((array == number).all() for number, array in enumerate(kept))


def test_slots_of_a_size_that_is_no_longer_needed_are_given_up(ends):
    ends[0].slots._keep = 2 * BIG
    for power in (20, 21, 22, 23):
        pass_on(ends, np.ones(2**power, np.uint8)).open()
        ends[1].send("returns")
        ends[0].receive()
    pass_on(ends, np.ones(2**24, np.uint8))
    assert len(ends[1]._borrowed._slots) == 1


def test_descriptors_are_not_used_up():
    before = open_files()
    one, other = map(Channel, socket.socketpair())
    for power in range(10, 25):
        one.send("head", np.ones(2**power, np.uint8))
        other.receive()
    one.close()
    other.close()
    del one, other
    assert not open_files() - before


def test_running_out_of_descriptors_is_said_clearly(ends):
    ends[0].send("head", np.ones(BIG, np.uint8))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 4, hard))
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.dup(0))
        with pytest.raises(OSError, match="ulimit -n"):
            ends[1].receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)


def test_without_memfd_nothing_named_stays(ends, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    value = np.arange(BIG)
    received = pass_on(ends, value).open()
    assert same(received, value)
    assert not [name for name in os.listdir("/dev/shm") if "towerpack" in name]


def test_memory_that_cannot_be_mapped_is_an_error():
    with pytest.raises(OSError, match="cannot map 4096 bytes"):
        SlotBlock(first=0, size=4096, length=1).slots(descriptor=0)


def test_a_batch_that_was_built_in_a_slot_is_not_copied(ends):
    image, label = ends[0].slots.allocate([((8, 500, 500), np.dtype(np.uint8)), ((8,), np.dtype(np.int64))])
    image[:] = 3
    label[:] = 4
    received = pass_on(ends, [image, label[:5]]).open()
    assert same(received, [image, label[:5]])
    image[0, 0, 0] = 99
    assert received[0][0, 0, 0] == 99
    assert number_of_slots(ends[0]) == 1


def test_a_batch_that_was_never_sent_leaves_its_slot():
    pool = SlotPool()
    for _ in range(3):
        pool.allocate([((BIG,), np.dtype(np.uint8))])
        pool.settle(set())
    assert pool._made == 1


def test_small_slots_share_a_mapping(ends):
    kept = [pass_on(ends, np.full(50_000, number, np.uint8)).open() for number in range(40)]
    assert len(ends[0].slots._out) == 40
    assert ends[0].slots._made == 48  # three times sixteen
    assert all((array == number).all() for number, array in enumerate(kept))


def test_small_batches_and_objects_stay_out_of_slots():
    pool = SlotPool()
    pool.allocate([((8,), np.dtype(np.uint8))])
    pool.allocate([((BIG,), np.dtype(object))])
    assert pool._made == 0


def test_a_peer_that_hangs_up(ends):
    ends[0].close()
    with pytest.raises(PeerGoneError):
        ends[1].receive()
    with pytest.raises(PeerGoneError):
        for _ in range(100):
            ends[1].send("head", b"x" * 1000)


def test_an_unpicklable_value_uses_no_slot(ends):
    with pytest.raises((TypeError, pickle.PicklingError)):
        ends[0].send("head", [np.ones(BIG), (number for number in range(3))])
    ends[0].slots.settle(set())
    assert pass_on(ends, [1]).open() == [1]


ALIKE = [
    [{"ids": np.arange(n, n + 128, dtype=np.int32), "label": n} for n in range(40)],
    [[np.float32(n), n, str(n), None] for n in range(40)],
    [(np.full((2, 3), n), b"x") for n in range(40)],
    [[np.datetime64(n, "D"), True] for n in range(9)],
]
UNLIKE = [
    [[np.ones(n)] for n in range(40)],
    [{"a": 1}, {"b": 1}] * 20,
    [[1], (1,)] * 20,
    [[1], [1, 2]] * 20,
    list(range(40)),
    [[np.array(3)] for _ in range(40)],
    [[np.ones(1, np.int8)], [np.ones(1, np.int16)]] * 20,
    [[np.zeros((0, 3))]] * 20,
    [[{"nested": 1}]] * 20,
    [[]] * 20,
]


@pytest.mark.parametrize("datapoints", ALIKE[:3])
def test_small_datapoints_travel_as_columns(datapoints):
    table = to_table(datapoints)
    assert isinstance(table, ColumnTable)
    assert same(from_table(table), datapoints)


@pytest.mark.parametrize("datapoints", [*ALIKE, *UNLIKE])
def test_columns_or_not_it_is_the_same(ends, datapoints):
    assert same(from_table(pass_on(ends, to_table(datapoints)).open()), datapoints)


def test_threads_that_open_and_let_go_lose_no_slot(ends):
    """Two passes of one pool have a consumer each."""
    names = {place[0] for place in pass_on(ends, np.zeros(BIG, np.uint8))._buffers}
    ends[1].give_back()
    borrowed, failures, slot = ends[1]._borrowed, [], names.pop()
    returned = []

    def consume():
        try:
            for _ in range(3000):
                borrowed.lend(borrowed.lease(slot), 10)
                assert borrowed.owed >= 0 and borrowed.kept in (False, True)
                returned.extend(borrowed.returned())
        except Exception as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    returned += borrowed.returned()
    assert failures == []
    assert len(returned) == 12000 and borrowed._lent == borrowed._messages == 0


def test_a_large_slot_that_is_no_longer_needed_is_unmapped(ends):
    two = [pass_on(ends, np.zeros(BIG, np.uint8)).open() for _ in range(2)]
    del two
    for number in range(200):
        array = pass_on(ends, np.full(BIG, number, np.uint8)).open()
        assert (array == number).all()
        del array
        ends[1].give_back()
        ends[0].receive()
    assert len(ends[1]._borrowed._slots) == len(ends[0].slots._free) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([3000, BIG, 3 * BIG]), st.integers(0, 3)), max_size=150))
def test_memory_with_a_live_view_is_never_written_again(messages):
    """A consumer keeps any arrays for any time, also while slots are retired."""
    one, other = map(Channel, socket.socketpair())
    kept = []
    for number, (size, dropped) in enumerate(messages):
        one.send(None, np.full(size, number % 256, np.uint8))
        kept.append((number % 256, other.receive()[1].open()))
        del kept[:dropped]
        other.give_back()
        one.receive()
        assert other._borrowed.in_use == other._borrowed._leased - other._borrowed._ended
    for number, array in kept:
        assert (array == number).all()
    one.close()
    other.close()
