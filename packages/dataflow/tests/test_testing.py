import random

import numpy as np
import pytest

from towerpack_dataflow import DataFlow, DataFromGenerator, DataFromList, MapData
from towerpack_dataflow.testing import ConformanceError, check_dataflow, same


def source():
    return DataFromList([[i] for i in range(10)])


class Unseeded(DataFlow):
    def __iter__(self):
        yield [random.random()]


class WrongLength(DataFlow):
    def __len__(self):
        return 3

    def __iter__(self):
        yield [1]


class Mutable(DataFromList):
    """Bypasses the copies of lists."""

    def _datapoints(self, epoch, start):
        return iter(self._lst[start:])


class MovedByReset(DataFlow):
    offset = 0

    def reset_state(self):
        super().reset_state()
        self.offset += 1

    def __iter__(self):
        yield [self.offset]


class Wrapper:
    """A flow of another family, with one promise after another broken."""

    def __init__(self):
        self.flow = source()

    def __iter__(self):
        return iter(self.flow)

    def __len__(self):
        return len(self.flow)

    def reset_state(self):
        self.flow.reset_state()

    def seed(self, seed):
        self.flow.seed(seed)

    def state_dict(self):
        return self.flow.state_dict()

    def load_state_dict(self, state):
        self.flow.load_state_dict(state)


class ForgetsState(Wrapper):
    def load_state_dict(self, state):
        pass


class HugeState(Wrapper):
    addressable = True

    def state_dict(self):
        return {**self.flow.state_dict(), "more": "x" * 2000}


class ObjectState(Wrapper):
    def state_dict(self):
        return {**self.flow.state_dict(), "more": np.int64(1)}


class OneIterator(Wrapper):
    def __iter__(self):
        if not hasattr(self, "iterator"):
            self.iterator = iter([[1], [2], [3], [4]] * 100)
        return self.iterator

    def __len__(self):
        raise TypeError


class ForgetsPosition(Wrapper):
    def __getstate__(self):
        return {"flow": DataFromList(self.flow._lst)}


class OneArray(DataFlow):
    """Writes each datapoint into the same array."""

    def __init__(self):
        self.array = np.zeros(3)

    def __iter__(self):
        for number in range(5):
            self.array[:] = number
            yield [self.array]


class OneArrayAddressable(DataFlow):
    """Makes each datapoint in the same array, which a copied list does not help against."""

    def __init__(self):
        self.array = np.zeros(3)

    def __len__(self):
        return 5

    def datapoint(self, epoch, index):
        self.array[:] = index
        return {"x": [self.array]}


class IntoOne:
    """A map's function with one output array."""

    def __init__(self):
        self.array = np.zeros(1)

    def __call__(self, datapoint):
        self.array[:] = datapoint[0]
        return (self.array[:],)


class WithinDatapoint(DataFlow):
    """Right while it is iterated over; single datapoints share an array."""

    def __init__(self):
        self.array = np.zeros(3)

    def __len__(self):
        return 5

    def datapoint(self, epoch, index):
        self.array[:] = index
        return [self.array]

    def _datapoints(self, epoch, start):
        return ([np.full(3, float(index))] for index in range(start, 5))


class Queued(DataFlow):
    """A live flow: items taken from the queue cannot be read again."""

    live = True

    def __init__(self, count=100):
        self.waiting = list(range(count))

    def __iter__(self):
        while self.waiting:
            yield [self.waiting.pop(0)]


class QueuedIntoOne(Queued):
    def __iter__(self):
        array = np.zeros(1)
        while self.waiting:
            array[:] = self.waiting.pop(0)
            yield [array]


class QueuedWithObject(Queued):
    def state_dict(self):
        return {"next": np.int64(3)}


def test_live_flows_pass():
    check_dataflow(Queued())
    check_dataflow(MapData(Queued(), list))
    check_dataflow(lambda: Queued(5))


def test_of_a_live_flow_few_datapoints_are_taken():
    made = []
    check_dataflow(lambda: made.append(Queued()) or made[-1])
    assert sum(100 - len(flow.waiting) for flow in made) <= 8


def test_an_object_of_another_family_passes():
    check_dataflow(Wrapper())


def test_a_function_that_builds_the_flow():
    check_dataflow(lambda: MapData(source(), list))


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (Unseeded(), r"pass 0 with the same seed, unreset: datapoint 0 differs.*another source"),
        (WrongLength(), r"len\(\) returns 3, but a pass has 1 datapoints"),
        (MapData(source(), lambda dp: dp if dp[0] else None), r"len\(\) returns 10, but .* 9 .*drops=True"),
        (Mutable([[1], [2]], shuffle=False), r"emptied by the consumer.*Yield a copy"),
        (MovedByReset(), r"after two more reset_state\(\)|unreset"),
        (ForgetsState(), r"the rest of a pass after a state taken at \d+ was loaded into a copy"),
        (HugeState(), r"state_dict\(\) of an addressable flow has \d{4} bytes as JSON"),
        (ObjectState(), r"state_dict\(\) is not JSON"),
        (OneIterator(), r"instead of"),
        (OneArray(), r"kept by the consumer .* datapoint 0 differs: .*write each one into the same array"),
        (OneArrayAddressable(), r"kept by the consumer .* datapoint 0 differs"),
        (MapData(source(), IntoOne()), r"kept by the consumer .* datapoint 0 differs"),
        (WithinDatapoint(), r"kept by the consumer .* datapoint 0 differs"),
        (QueuedIntoOne(), r"kept by the consumer .* datapoint 0 differs"),
        (QueuedWithObject(), r"state_dict\(\) is not JSON"),
        (ForgetsPosition(), r"read from a copy made in the middle of it"),
        (DataFromGenerator(i for i in ()), r"cannot be copied by cloudpickle .*pass a function that builds"),
    ],
)
def test_broken_promises_are_found(flow, message):
    with pytest.raises(ConformanceError, match=message):
        check_dataflow(flow)


def test_same():
    assert same([np.array([np.nan]), {"a": (1, "x")}], [np.array([np.nan]), {"a": (1, "x")}])
    assert same(float("nan"), float("nan"))
    assert not same(np.zeros(2, "f4"), np.zeros(2, "f8"))
    assert not same(np.zeros(2), np.zeros((2, 1)))
    assert not same({"a": 1}, {"b": 1})
    assert not same([1], [1, 2])
    assert not same([1], (1,))
    assert same(np.array(["a"], object), np.array(["a"], object))
    assert issubclass(ConformanceError, AssertionError)
