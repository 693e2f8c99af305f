"""Lent memory goes into the graph without a copy, and back when TensorFlow lets go of it."""

import mmap
import pickle
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import QueueInput
from towerpack_inputsource.specs import Component, compile_check

SHAPE = (64, 128)
X = tf.TensorSpec(SHAPE, tf.float32, "x")


class Lease:
    """The base of the views of one slot; a separate type, so that NumPy keeps it as their base."""

    towerpack_lease = True

    def __init__(self, lender, number, read_only=True):
        self._lender = lender
        self.number = number
        self.__array_interface__ = {
            "shape": SHAPE,
            "typestr": "<f4",
            "data": (lender.address(number), read_only),
            "version": 3,
        }

    def __del__(self):
        self._lender.take_back(self.number)


class Lender:
    """A flow with datapoints in a few reused slots, like those of a runtime.

    A slot that comes back is filled with rubbish at once, so that whoever still sees it sees that.
    """

    def __init__(self, slots, count):
        self.memory = np.frombuffer(mmap.mmap(-1, slots * X.shape.num_elements() * 4), "float32")
        self.memory = self.memory.reshape(slots, *SHAPE)
        self.free = list(range(slots))
        self.changed = threading.Condition(threading.RLock())
        self.count = count
        self.read_only = False

    def address(self, number):
        return self.memory[number].__array_interface__["data"][0]

    def lend_read_only(self):
        self.read_only = True

    def take_back(self, number):
        with self.changed:
            self.memory[number] = -1
            self.free.append(number)
            self.changed.notify_all()

    def borrow(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.free, 20), "no slot came back"
            return self.free.pop(0)

    def view(self, k):
        number = self.borrow()
        self.memory[number] = k
        return np.asarray(Lease(self, number, self.read_only))

    def __iter__(self):
        return ([self.view(k)] for k in range(self.count))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(flow, **options):
    source = QueueInput(flow, infinite=False, **options)
    source.setup([X])
    return source, source.get_input_tensors()[0]


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


def address_of(tensor):
    """An op that tells where a tensor's buffer lies, as TensorFlow's own functions in Python see it."""
    return tf.numpy_function(lambda array: np.int64(array.__array_interface__["data"][0]), [tensor], tf.int64)


def test_no_copy_is_made():
    lender = Lender(slots=8, count=4)
    source, x = build(lender, capacity=2)
    where = address_of(x)
    with running(source) as session:
        addresses = [int(session.run(where)) for _ in range(4)]
    assert set(addresses) <= {lender.address(number) for number in range(8)}


def test_a_write_behind_the_back_of_the_lease_would_be_seen():
    """The other proof that nothing is copied, and the reason why a lender must keep its word."""
    lender = Lender(slots=2, count=1)
    arrived = threading.Event()

    class ThenTells:
        lend_read_only = lender.lend_read_only

        def __iter__(self):
            yield from lender
            arrived.set()

    source, x = build(ThenTells())
    with running(source) as session:
        assert arrived.wait(20)
        lender.memory[0] = 7
        np.testing.assert_array_equal(session.run(x), 7)


def test_a_slot_is_lent_until_its_tensor_is_gone():
    lender = Lender(slots=4, count=3)
    source, x = build(lender, capacity=3)
    total = tf.reduce_sum(x)
    with running(source) as session:
        for k in range(3):
            assert session.run(total) == k * 64 * 128
            # Nothing waits here: with the run, its tensors are gone.
            with lender.changed:
                assert lender.changed.wait_for(lambda k=k: lender.free.count(k), 20)
    assert sorted(lender.free) == [0, 1, 2, 3]


@pytest.mark.parametrize(("slots", "capacity"), [(5, 3), (9, 7)])
def test_reused_slots_corrupt_nothing(slots, capacity):
    """Slots are filled with rubbish when they come back; whatever is kept or computed must not see it.

    There are as few as can be: what the queue holds, one that waits for room, one that the step holds.
    """
    lender = Lender(slots, count=400)
    source, x = build(lender, capacity=capacity)
    numbers = [tf.reduce_min(x), tf.reduce_max(x), tf.reduce_mean(x + 1)]
    parts = [x[::7], x]
    kept = []
    with running(source) as session:
        for k in range(400):
            values, part = session.run([numbers, parts[k % 2]])
            assert values == [k, k, k + 1]
            kept.append((k, part))
    for k, fetched in kept:
        np.testing.assert_array_equal(fetched, k)


def test_a_view_that_can_be_written_to_is_copied():
    lender = Lender(slots=2, count=0)
    [taken] = compile_check([Component("x", np.dtype("float32"), SHAPE)])([lender.view(1)])
    assert not np.shares_memory(taken, lender.memory)


def through_pickle(array):
    buffers = []
    pickled = pickle.dumps(array, 5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[np.asarray(buffer.raw()) for buffer in buffers])


@pytest.mark.parametrize("derive", [lambda a: a, lambda a: a[:], lambda a: a[8:16], through_pickle])
@pytest.mark.parametrize("lease", [True, False])
def test_views_of_views(derive, lease):
    """Arrays on a lease are not copied and keep it; arrays on unknown memory are copied."""
    lender = Lender(slots=1, count=0)
    lender.lend_read_only()
    view = lender.view(1)
    owner = view.base
    owner.towerpack_lease = lease
    view = derive(view)
    [taken] = compile_check([Component("x", np.dtype("float32"), (None, 128))])([view])
    assert np.shares_memory(taken, lender.memory) == lease
    del owner, view
    assert lender.free == ([] if lease else [0])
    np.testing.assert_array_equal(taken, 1)
    del taken
    assert lender.free == [0]
