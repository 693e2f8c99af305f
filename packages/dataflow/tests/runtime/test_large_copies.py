"""Copies on a worker's second thread: all are complete when it reports them, and none comes later."""

import os
import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import BatchData, BatchError, DataFromList, MapData, MultiProcessRunner
from towerpack_dataflow.runtime.transport import CopyThread, SlotPool, StagedRows, caches_are_bypassed

PIECE = 2**12
STREAMS = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


def copy_thread():
    """Has small pieces."""
    return CopyThread(piece=PIECE, least_row=16, bypasses=True)


@given(st.sampled_from([PIECE, 2 * PIECE - 1, 2 * PIECE, 50_001]), st.integers(0, 3))
def test_halves_make_a_whole(size, odd):
    source = np.random.default_rng(size).integers(0, 255, size + odd, np.uint8)
    target = np.zeros(size + odd + 2, np.uint8)
    copy_thread().copy(source, target[1:-1])
    assert (target[1:-1] == source).all()
    assert target[0] == target[-1] == 0


GIVEN_UP = -1


def batches_of(numbers, shape, dtype, pool):
    """A flow that builds batches of up to 91 arrays in `pool`, as those of a worker do."""

    def array(number):
        if number == GIVEN_UP:
            raise InterruptedError
        return [np.full(shape, number, dtype)]

    flow = BatchData(MapData(DataFromList(numbers, shuffle=False), array), 91, remainder=True)
    flow._memory = pool
    return flow


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([(256,), (5, 67), (1023,)]),
    st.sampled_from([np.uint16, np.float64, np.dtype(">i4")]),
)
def test_batches_hold_the_added_values(batches, shape, dtype):
    pool = SlotPool(copy_thread())
    for turn, (count, given_up) in enumerate(batches):
        numbers = np.arange(turn * 90, turn * 90 + count)
        if given_up:
            with pytest.raises(InterruptedError):
                list(batches_of([*numbers, GIVEN_UP], shape, dtype, pool))
        else:
            ((batch,),) = batches_of(list(numbers), shape, dtype, pool)
            assert batch.shape == (count, *shape)
            assert batch.dtype == dtype
            assert (batch.reshape(count, -1) == numbers[:, None]).all()
        pool.settle(set())


def test_pending_copies_of_an_abandoned_batch_do_not_reach_the_next_one():
    pool = SlotPool(copy_thread())
    for _ in range(50):
        (buffer,) = pool.allocate([((400, 512), np.dtype(np.uint8))])
        rows, _ = pool.rows(buffer)
        assert isinstance(rows, StagedRows)
        for row in range(399):
            rows[row] = 1
        del rows
        pool.settle(set())
        (again,) = pool.allocate([((400, 512), np.dtype(np.uint8))])
        assert again.ctypes.data == buffer.ctypes.data
        again[:] = 2
        assert (again == 2).all()
        pool.settle(set())


def test_a_row_may_be_given_again():
    (buffer,) = np.zeros((1, 100, 512), np.uint8)
    rows, finish = copy_thread().rows(buffer)
    for row in range(100):
        rows[row] = 9
        rows[row] = row
    finish()
    assert (buffer[:, 0] == np.arange(100)).all()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((100, 8), np.uint8),
        ((100, 512), object),
        ((100, PIECE), np.uint8),
        ((7, 512), np.uint8),
        ((0, 9), int),
    ],
)
def test_other_batches_are_written_as_ever(shape, dtype):
    buffer = np.zeros(shape, dtype)
    rows, finish = copy_thread().rows(buffer)
    assert rows is buffer
    finish()


# ---- in workers, with pieces of the real size

ROW = (64, 512)  # of int32: 128 KB


def rows(count):
    return MapData(
        DataFromList(list(range(count)), shuffle=False), lambda row: [np.full(ROW, row, np.int32), row]
    )


@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_workers_batch_large_rows(start_method):
    assert not caches_are_bypassed()
    flow = BatchData(rows(500), 150, remainder=True)
    runner = MultiProcessRunner(flow, 2, start_method=start_method)
    for _ in range(2):
        kept = list(runner)
        assert [len(batch) for batch, _ in kept] == [150, 150, 150, 50]
        for batch, numbers in kept:
            assert (batch == numbers[:, None, None]).all()


def test_a_batch_that_fails_leaves_nothing_for_the_next_one(tmp_path):
    fails = tmp_path / "fails"
    fails.touch()

    def image(row):
        size = 2 if row == 139 and os.path.exists(fails) else 64
        return [np.full((size, 512), row, np.int32)]

    runner = MultiProcessRunner(BatchData(MapData(rows(300).ds, image), 150), 1)
    with pytest.raises(BatchError, match="datapoint 139"):
        list(runner)
    fails.unlink()
    first, second = (batch for (batch,) in runner)
    assert (first[:, 0, 0] == np.arange(150)).all() and (second[:, 0, 0] == np.arange(150, 300)).all()


def test_fresh_workers_copy_past_the_caches():
    flow = MultiProcessRunner(
        MapData(DataFromList([[0]]), lambda _: [caches_are_bypassed()]), 1, start_method="spawn"
    )
    assert list(flow) == [[STREAMS]]
