"""From a worker process into the graph: the only copy is made by the worker."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import (
    BatchData,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
)
from towerpack_inputsource import QueueInput, StagingInput

ROWS, WIDTH = 4, 65_536  # of float32: a batch of 1 MB
X = tf.TensorSpec([ROWS, WIDTH], tf.float32, "x")
NUMBER = tf.TensorSpec([ROWS], tf.int64, "number")


def rows(batches):
    numbered = DataFromList([[np.int64(number)] for number in range(batches * ROWS)], shuffle=False)
    # Each row is a function of its number; a row that is overwritten with another one's shows it.
    return MapData(numbered, lambda dp: [np.full(WIDTH, dp[0] % 509, np.float32), dp[0]])


def batched_by_workers(batches, **options):
    return MultiProcessRunner(BatchData(rows(batches), ROWS), 2, **options)


def mapped_by_workers(batches, **options):
    return MultiProcessMapData(BatchData(rows(batches), ROWS), 2, list, **options)


FLOWS = pytest.mark.parametrize("build", [batched_by_workers, mapped_by_workers])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build_source(flow, source_of=lambda source: source, **options):
    source = source_of(QueueInput(flow, infinite=False, **options))
    source.setup([X, NUMBER])
    return source, source.get_input_tensors()


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


def address_of(tensor):
    """An op that returns the address of a tensor's buffer."""
    return tf.numpy_function(lambda array: np.int64(array.__array_interface__["data"][0]), [tensor], tf.int64)


def lies_in_a_slot(address):
    """Whether the address belongs to memory that a worker process has made."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(text, 16) for text in re.match(r"(\w+)-(\w+) ", line).groups())
        if begin <= address < end:
            return "memfd:towerpack-slot" in line
    return False


@FLOWS
def test_the_tensor_lies_where_the_worker_has_written_it(build):
    source, (x, _) = build_source(build(8), capacity=3)
    where = address_of(x)
    with running(source) as session:
        for _ in range(8):
            assert lies_in_a_slot(int(session.run(where)))


def test_an_array_of_the_consumers_own_lies_elsewhere():
    """That the test above could fail."""
    flow = MapData(batched_by_workers(2), lambda dp: [dp[0].copy(), dp[1]])
    source, (x, _) = build_source(flow)
    where = address_of(x)
    with running(source) as session:
        assert not lies_in_a_slot(int(session.run(where)))


def test_what_a_map_in_this_process_may_write_to_is_copied():
    def negate(dp):
        np.negative(dp[0], out=dp[0])
        return dp

    source, (x, number) = build_source(MapData(batched_by_workers(40), negate), capacity=3)
    where = address_of(x)
    with running(source) as session:
        for _ in range(40):
            values, numbers, address = session.run([x, number, where])
            assert not lies_in_a_slot(int(address))
            np.testing.assert_array_equal(values[:, 7], -(numbers % 509))


def held(session, taken, kept):
    """A step with fetched arrays that alias the tensors, some of which are kept for a while."""
    values, numbers = session.run(taken)
    kept.append((values, numbers))
    if len(kept) > 5:
        old, expected = kept.pop(len(kept) % 3)
        assert (old == (expected % 509)[:, None]).all()


@pytest.mark.slow
@FLOWS
@pytest.mark.parametrize("source_of", [lambda source: source, StagingInput], ids=["queue", "staged"])
def test_slots_that_are_used_again_and_again_corrupt_nothing(build, source_of):
    """Checksums in the graph over every element, while workers fill the slots that come back."""
    batches = 300
    # A consumer that lags behind the workers, with a bound so small that some are lent and some copied.
    flow = FixedSizeData(build(batches, prefetch_bytes=2**22), batches)
    source, (x, number) = build_source(flow, source_of, capacity=6)
    expected = tf.cast(number % 509, tf.float32)
    checks = [
        tf.reduce_all(tf.equal(x, expected[:, None])),
        tf.reduce_all(
            tf.equal(tf.reduce_sum(tf.cast(x, tf.float64), 1), tf.cast(expected, tf.float64) * WIDTH)
        ),
    ]
    kept, seen = [], 0
    with running(source) as session:
        while not session.should_stop():
            try:
                if seen % 3:
                    assert session.run(checks) == [True, True]
                else:
                    held(session, [x, number], kept)
            except tf.errors.OutOfRangeError:
                break
            seen += 1
    assert seen == batches
    for values, numbers in kept:
        assert (values == (numbers % 509)[:, None]).all()
