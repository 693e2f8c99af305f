"""A datapoint is a value at the moment it is handed out: whoever makes it may write to its memory again."""

import sys
from itertools import islice

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromList,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = pytest.mark.slow

COUNT = 60


class Reusing:
    """Fills the same memory for each datapoint; `form` says what it hands out of that memory."""

    def __init__(self, form, size):
        self.form = form
        self.memory = np.zeros(size, np.int64)
        self.parts = [self.memory, 0]
        self.box = {"deep": [self.memory]}
        self.bytes = bytearray(8)

    def __call__(self, dp):
        self.memory[:] = dp[0]
        self.parts[1] = dp[0]
        self.bytes[0] = dp[0]
        return getattr(self, self.form)()

    def array(self):
        return [self.memory]

    def view(self):
        return [self.memory[: len(self.memory) // 2 + 1], "text"]

    def container(self):
        return self.parts

    def dictionary(self):
        return {"array": self.memory, "number": int(self.memory[0])}

    def nested(self):
        return (self.box, [{"a": self.memory.reshape(1, -1)}])

    def mutable_bytes(self):
        return [self.bytes]

    def record(self):
        return [self.memory.view([("field", np.int64)])[0]]

    def objects(self):
        return [np.array([self.parts, None], object)]


FORMS = [name for name in vars(Reusing) if not name.startswith("_")]


class ReusingStream(DataFlow):
    def __init__(self, func):
        self.func = func

    def __len__(self):
        return COUNT

    def __iter__(self):
        for number in range(COUNT):
            yield self.func([number])


class ReusingSource(DataFlow):
    def __init__(self, func):
        self.func = func

    def __len__(self):
        return COUNT

    def datapoint(self, epoch, index):
        return self.func([index])


def numbers():
    return DataFromList([[number] for number in range(COUNT)], shuffle=False)


def expected(form, size):
    func = Reusing(form, size)
    return [repr(func([number])) for number in range(COUNT)]


FLOWS = {
    "map": lambda func: MapData(numbers(), func),
    "source": ReusingSource,
    "stream": ReusingStream,
}
RUNNERS = {
    "forked": lambda flow: MultiProcessRunner(flow, 2, start_method="fork"),
    "threads": lambda flow: MultiThreadRunner(flow, 1),
    "forked, skipping": lambda flow: MultiProcessRunner(
        flow, 1, start_method="fork", on_error="skip" if flow.addressable else "raise"
    ),
    "read by a forked map": lambda flow: MultiProcessMapData(flow, 2, same, start_method="fork"),
    "read by a threaded map": lambda flow: MultiThreadMapData(flow, 2, same),
}


def same(dp):
    return dp


def twice_read(flow):
    """Reads one pass slowly and one as a list: what a consumer holds must stay, too."""
    return [[repr(dp) for dp in flow], [repr(dp) for dp in list(flow)]]


@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
@settings(max_examples=8)
@given(form=st.sampled_from(FORMS), flow=st.sampled_from(list(FLOWS)), size=st.sampled_from([1, 5, 3000]))
def test_runners_hand_out_values(run, form, flow, size):
    runner = run(FLOWS[flow](Reusing(form, size)))
    assert twice_read(runner) == [expected(form, size)] * 2
    if runner._worker_pool is not None:
        runner._worker_pool.close()


@pytest.mark.parametrize("form", FORMS)
def test_the_functions_of_parallel_maps_may_reuse_memory(form):
    for flow in (
        MultiProcessMapData(numbers(), 1, Reusing(form, 5), start_method="fork"),
        MultiThreadMapData(numbers(), 1, Reusing(form, 5)),
    ):
        assert twice_read(flow) == [expected(form, 5)] * 2


@pytest.mark.parametrize("fresh", [False, True])
def test_batches_of_a_stream_that_reuses_memory(fresh):
    flow = MultiProcessMapAndBatchData(
        ReusingStream(Reusing("array", 5)), 2, same, 4, start_method="spawn" if fresh else "fork"
    )
    assert [batch[:, 0].tolist() for (batch,) in flow] == [list(range(n, n + 4)) for n in range(0, COUNT, 4)]


def test_batches_that_stay_lists():
    batches = list(BatchData(ReusingStream(Reusing("array", 3)), 4, use_list=True))
    assert [[int(array[0]) for array in batch[0]] for batch in batches] == [
        list(range(n, n + 4)) for n in range(0, COUNT, 4)
    ]


def test_fresh_arrays_are_not_copied_on_their_way_through_a_thread():
    made = []

    def make(dp):
        array = np.full(2**17, dp[0])
        made.append(array.__array_interface__["data"][0])
        return [array[::-1], array.sum()]

    got = list(islice(MultiThreadRunner(MapData(numbers(), make), 1), 10))
    assert [array.base.__array_interface__["data"][0] for array, _ in got] == made[:10]


def test_fresh_datapoints_are_made_once():
    calls = []

    def make(dp):
        calls.append(dp)
        return {"array": np.full(5, dp[0]), "calls": len(calls)}

    with MultiProcessRunner(MapData(numbers(), make), 1, start_method="fork") as runner:
        assert [dp["calls"] for dp in runner] == list(range(1, COUNT + 1))


def test_a_ring_of_rows_that_are_written_again():
    ring = np.zeros((100, 5), np.int64)

    def make(number):
        ring[number % 100] = number
        return {"row": ring[number % 100]}

    with MultiProcessRunner(
        MapData(DataFromList(range(5000), shuffle=False), make), 1, start_method="fork"
    ) as runner:
        assert [int(dp["row"][0]) for dp in runner] == list(range(5000))
