import copy
import gc
import threading
from itertools import islice

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import BatchData, DataFlow, DataFromArrays, DataFromList, MapData, MultiThreadRunner
from towerpack_dataflow.batch import BufferPool

LARGE = ((64, 1024), np.dtype(np.uint8))


def address(array):
    return array.__array_interface__["data"][0]


class Blocks(DataFlow):
    """Items of 40 KB that say where they come from in each of their bytes."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def datapoint(self, epoch, index):
        return [np.full((8, 5120), index % 251, np.uint8), index]


VIEWS = [
    lambda array: array,
    lambda array: array[1:],
    lambda array: array.T,
    lambda array: array.reshape(-1)[::3],
    lambda array: np.asarray(memoryview(array)),
    lambda array: np.frombuffer(array, np.uint16),
    lambda array: array.view(np.int8).swapaxes(0, 1)[1:, None][::2],
]


@given(
    st.lists(st.tuples(st.sampled_from(VIEWS), st.integers(0, 3)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_arrays_of_a_consumer_never_change(plan, gathered, read_only):
    source = Blocks(10**6)
    if gathered:
        source = DataFromArrays([np.stack([source.datapoint(0, i)[0] for i in range(16)]), list(range(16))])
    flow = BatchData(source, 4)
    if read_only:
        flow.lend_read_only()
    held = []
    iterator = iter(flow)
    for view, forgotten in plan:
        batch = next(iterator, None)
        if batch is None:
            break
        seen = view(batch[0])
        held.append((seen, seen.copy()))
        del batch, seen, held[: min(forgotten, len(held))]
        for seen, was in held:
            assert np.array_equal(seen, was)


def test_memory_serves_again_when_the_last_view_is_gone():
    pool = BufferPool()
    (first,) = pool.allocate([LARGE])
    at, rest = address(first), first.T[5:]
    del first
    (second,) = pool.allocate([LARGE])
    assert address(second) != at
    del rest
    (third,) = pool.allocate([LARGE])
    assert address(third) == at
    assert (third.shape, third.dtype, address(third) % 64) == ((64, 1024), np.uint8, 0)


def test_two_buffers_serve_who_looks_at_one_batch_at_a_time_and_one_who_lets_go():
    assert len({address(batch) for batch, _ in BatchData(Blocks(100), 4)}) == 2
    iterator = iter(BatchData(Blocks(100), 4))
    assert len({address(next(iterator)[0]) for _ in range(20)}) == 1


def test_a_component_that_is_kept_keeps_no_other():
    pool = BufferPool()
    one, two = pool.allocate([LARGE, LARGE])
    at = address(two)
    del two
    assert address(pool.allocate([LARGE])[0]) == at
    assert one.size


def test_hoarded_batches_are_all_different_and_only_some_memory_is_kept():
    pool = BufferPool(keep=3 * 2**16)
    hoard = [pool.allocate([LARGE])[0] for _ in range(10)]
    assert len({address(array) for array in hoard}) == 10
    del hoard
    assert [len(free) for free in pool._free.values()] == [3]


def test_one_buffer_is_kept_however_large():
    pool = BufferPool(keep=1)
    at = address(pool.allocate([LARGE])[0])
    assert address(pool.allocate([LARGE])[0]) == at


def test_memory_of_sizes_long_out_of_use_is_let_go():
    pool = BufferPool()
    for size in range(2**16, 2**16 + 100):
        pool.allocate([((size,), np.dtype(np.uint8))])
    assert len(pool._free) <= 8


@pytest.mark.parametrize(
    "field", [((3,), np.dtype(float)), ((0, 5), np.dtype(float)), ((10**4,), np.dtype(object))]
)
def test_small_arrays_and_objects_are_numpys_own(field):
    (array,) = BufferPool().allocate([field])
    assert array.base is None and (array.shape, array.dtype) == field


def test_views_outlive_the_pool():
    (array,) = BufferPool().allocate([LARGE])
    array[:] = 7
    gc.collect()
    assert (array == 7).all()


@pytest.mark.parametrize(
    ("shape", "dtype"), [((2**14,), ">i4"), ((3, 2**13), [("a", "i4"), ("b", "f8")]), ((2**14,), "M8[s]")]
)
def test_any_dtype(shape, dtype):
    (array,) = BufferPool().allocate([(shape, np.dtype(dtype))])
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))


def test_read_only_batches_stand_on_a_lease_and_nothing_writeable():
    for source in (Blocks(8), DataFromArrays([np.zeros((8, 2**15)), list(range(8))])):
        flow = BatchData(source, 4)
        flow.lend_read_only()
        owner, numbers = next(iter(flow))
        with pytest.raises(ValueError, match="read-only"):
            owner[0] = 1
        assert not numbers.flags.writeable
        while isinstance(owner, np.ndarray):
            assert not owner.flags.writeable
            owner = owner.base
        assert owner.towerpack_lease


def test_batches_may_be_written_to_unless_they_are_lent():
    flow = BatchData(Blocks(8), 4)
    (batch, _), _ = flow
    batch += 1
    assert (next(iter(flow))[0][0] == 0).all()


def test_kept_lists_are_lent_by_the_flow_below():
    class Lender(DataFromList):
        lent = False

        def lend_read_only(self):
            self.lent = True

    lender = Lender([[1]])
    BatchData(lender, 1).lend_read_only()
    assert not lender.lent
    BatchData(lender, 1, use_list=True).lend_read_only()
    assert lender.lent


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda flow: cloudpickle.loads(cloudpickle.dumps(flow))]
)
def test_a_copy_has_separate_memory_and_lends_nothing(copied):
    flow = BatchData(Blocks(8), 4)
    flow.lend_read_only()
    batch, _ = next(iter(flow))
    other = copied(flow)
    assert other._memory is None
    assert next(iter(other))[0].flags.writeable
    assert (batch[0] == 0).all()


def test_many_threads_let_go_and_allocate():
    pool = BufferPool()
    wrong = []

    def work(number):
        held = []
        for step in range(300):
            (array,) = pool.allocate([LARGE])
            array[:] = number
            held.append(array)
            if step % 3 == 2:
                wrong.extend(1 for array in held if not (array == number).all())
                held.clear()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_map_above_may_change_its_batch():
    flow = MapData(BatchData(Blocks(40), 4), lambda dp: [dp[0].__iadd__(1), dp[1]])
    held = list(flow)
    assert len(held) == 10
    assert all((batch[:, 0, 0] == numbers + 1).all() for batch, numbers in held)


@pytest.mark.slow
def test_in_threads():
    held = list(islice(MultiThreadRunner(BatchData(Blocks(400), 4), 3), 80))
    assert len(held) == 80
    assert all((batch[:, 0, 0] == numbers % 251).all() for batch, numbers in held)
