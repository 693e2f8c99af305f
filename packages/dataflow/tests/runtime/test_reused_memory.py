"""A datapoint is a value at the time of its yield: its flow may overwrite its memory afterwards."""

import sys
from functools import partial
from itertools import islice

import cloudpickle
import numpy as np
import pytest
from hypothesis import example, given, settings
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
    RepeatedData,
    ShardData,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = pytest.mark.slow

COUNT = 60


class Reusing:
    """Fills the same memory for each datapoint; `form` selects the yielded part of that memory."""

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

    def view_of_objects(self):
        return [np.array([self.parts, None, self.parts], object)[:2]]

    def row(self):
        return [self.memory.reshape(1, -1), int(self.memory[0])]

    def row_and_text(self):
        return [self.memory.reshape(1, -1), "text"]

    def column(self):
        return [self.memory.reshape(-1, 1), int(self.memory[0])]

    def other_key(self):
        return {"number": int(self.memory[0]), "array": self.memory}


FORMS = [name for name in vars(Reusing) if not name.startswith("_")]


class Changing(Reusing):
    """Hands out another form each time."""

    def __init__(self, forms, size):
        super().__init__("", size)
        self.forms = forms

    def __call__(self, dp):
        self.form = self.forms[dp[0] % len(self.forms)]
        return super().__call__(dp)


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


class ReusingList(DataFromList):
    """A source that reuses memory, although the one it is made of does not."""

    def __init__(self, func):
        super().__init__([[number] for number in range(COUNT)], shuffle=False)
        self.func = func

    def datapoint(self, epoch, index):
        return self.func([index])


class ReusingSequence:
    """A sequence, such as a file, that reads into the same memory."""

    def __init__(self, func):
        self.func = func

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
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
    "list": ReusingList,
    "sequence": lambda func: DataFromList(ReusingSequence(func), shuffle=False),
    "shard of a source": lambda func: ShardData(ReusingSource(func), 0, 1),
    "repeated stream": lambda func: RepeatedData(ReusingStream(func), 1),
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


MAPS = {
    "forked": partial(MultiProcessMapData, start_method="fork"),
    "threads": MultiThreadMapData,
}


def same(dp):
    return dp


def twice_read(flow):
    """Reads one pass slowly and one as a list: held arrays must stay unchanged, too."""
    return [[repr(dp) for dp in flow], [repr(dp) for dp in list(flow)]]


@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
@settings(max_examples=8)
@given(form=st.sampled_from(FORMS), flow=st.sampled_from(list(FLOWS)), size=st.sampled_from([1, 5, 3000]))
def test_runners_hand_out_values(run, form, flow, size):
    runner = run(FLOWS[flow](Reusing(form, size)))
    assert twice_read(runner) == [expected(form, size)] * 2
    if runner._worker_pool is not None:
        runner._worker_pool.close()


@settings(max_examples=15)
@given(
    forms=st.lists(st.sampled_from(FORMS), min_size=2, max_size=12),
    flow=st.sampled_from(list(FLOWS)),
    run=st.sampled_from(["forked", "threads"]),
)
@example(forms=["row"] * 11 + ["row_and_text"], flow="stream", run="forked")
@example(forms=["row"] * 11 + ["row_and_text"], flow="stream", run="threads")
def test_datapoints_of_changing_outlines_are_values(forms, flow, run):
    expected = [repr(Changing(forms, 5)([number])) for number in range(COUNT)]
    with RUNNERS[run](FLOWS[flow](Changing(forms, 5))) as runner:
        assert twice_read(runner) == [expected] * 2
    with MAPS[run](numbers(), 1, Changing(forms, 5)) as mapped:
        assert twice_read(mapped) == [expected] * 2


@pytest.mark.parametrize("run", ["forked", "threads"])
def test_outputs_between_dropped_ones_are_values(run):
    make = Reusing("dictionary", 5)
    with MAPS[run](numbers(), 1, lambda dp: make(dp) if dp[0] % 7 else None, drops=True) as flow:
        assert [int(dp["array"][0]) for dp in flow] == [number for number in range(COUNT) if number % 7]


@pytest.mark.parametrize("run", ["forked", "threads"])
def test_outputs_before_an_error_are_values(run):
    make = Reusing("view", 5)
    got = []
    flow = MAPS[run](numbers(), 1, lambda dp: make(dp) if dp[0] < 50 else 1 / 0)
    with flow, pytest.raises(ZeroDivisionError):
        got.extend(flow)
    assert [int(array[0]) for array, _ in got] == list(range(50))


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


@pytest.mark.parametrize("length", [5, None])
def test_fresh_datapoints_are_made_once(length):
    calls = []

    def make(dp):
        calls.append(dp)
        return {"array": np.full(length or len(calls), dp[0]), "calls": len(calls)}

    with MultiProcessRunner(MapData(numbers(), make), 1, start_method="fork") as runner:
        assert [dp["calls"] for dp in runner] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("run", ["forked", "threads"])
def test_a_ring_of_rows_that_are_written_again(run):
    ring = np.zeros((100, 5), np.int64)

    def make(number):
        ring[number % 100] = number
        return {"row": ring[number % 100]}

    with RUNNERS[run](MapData(DataFromList(range(5000), shuffle=False), make)) as runner:
        assert [int(dp["row"][0]) for dp in list(runner)] == list(range(5000))


def test_threads_hand_out_the_members_of_a_list_themselves():
    members = [{"array": np.full(5, number)} for number in range(COUNT)]
    flow = ShardData(DataFromList(members, shuffle=False), 0, 1)
    for runner in (MultiThreadRunner(flow, 2), MultiThreadMapData(flow, 2, same)):
        with runner:
            got = list(runner)
        assert [dp["array"].tolist() for dp in got] == [dp["array"].tolist() for dp in members]
    with MultiThreadRunner(flow, 2) as runner:
        assert all(dp["array"] is member["array"] for dp, member in zip(runner, members))
