"""A failure to send is an error of the datapoint, handled by `on_error`."""

import dataclasses
import os
import subprocess
import sys
import threading

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

KINDS = [RuntimeError, KeyError, OSError, BufferError, RecursionError, MemoryError, ZeroDivisionError]


class Unsendable:
    """Raises when it is pickled, as often as is asked for."""

    def __init__(self, kind, times=10**9):
        self.kind = kind
        self.times = times

    def __reduce__(self):
        self.times -= 1
        if self.times >= 0:
            raise self.kind("not this one")
        return str, ("sent",)


def numbers(count=40):
    return DataFromList([[number] for number in range(count)], shuffle=False)


def at(place, value):
    return lambda dp: [value] if dp[0] == place else dp


def read_until_error(flow):
    read = []
    with pytest.raises(Exception) as caught:
        for datapoint in flow:
            read.append(datapoint)
    return read, caught.value


def runner(func, **options):
    return MultiProcessRunner(MapData(numbers(), func), 2, start_method="fork", **options)


def outputs(func, **options):
    return MultiProcessMapData(numbers(), 2, func, start_method="fork", **options)


def inputs(func, **options):
    source = DataFromGenerator(lambda: map(func, ([number] for number in range(40))))
    return MultiProcessMapData(source, 2, list, start_method="fork", **options)


def stream(func, **options):
    return MultiProcessRunner(
        DataFromGenerator(lambda: map(func, ([n] for n in range(40)))), 1, start_method="fork", **options
    )


WAYS = {"runner": runner, "outputs": outputs, "inputs": inputs, "stream": stream}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_while_sending_keeps_its_type(make, kind):
    flow = make(at(23, Unsendable(kind)))
    for _ in range(2):  # and the flow can be used again
        read, error = read_until_error(flow)
        assert read == [[number] for number in range(23)]
        assert type(error) is kind and "not this one" in str(error)
    flow.close()


@pytest.mark.parametrize("make", [runner, outputs, inputs])
def test_an_unsendable_datapoint_is_skipped(make, caplog):
    flow = make(at(23, Unsendable(KeyError)), on_error="skip")
    expected = [[number] for number in range(40) if number != 23]
    assert list(flow) == expected and list(flow) == expected
    assert sum("skipped 1 datapoints" in message for message in caplog.messages) == 2
    flow.close()


@pytest.mark.parametrize("make", [runner, outputs])
def test_an_unsendable_datapoint_is_made_again(make):
    made = []

    def func(dp):
        made.append(dp[0])
        return [Unsendable(OSError, times=2 if made.count(23) == 1 else 0)] if dp[0] == 23 else dp

    flow = make(func, on_error="retry")
    assert list(flow) == [[n] if n != 23 else ["sent"] for n in range(40)]
    flow.close()
    flow = make(at(23, Unsendable(OSError)), on_error="retry")
    assert type(read_until_error(flow)[1]) is OSError
    flow.close()


def test_memory_that_cannot_be_had_is_an_error_of_its_datapoint():
    """A limit of the file size refuses the slot of the large datapoint, as a full memory would."""
    code = """
import resource, signal
import numpy as np
from towerpack_dataflow import *

def limit(number):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**23, 2**23))

flow = MapData(DataFromList(list(range(9)), shuffle=False), lambda n: [np.zeros(2**26 if n == 5 else 9)])
fresh = {"worker_init_fn": limit, "start_method": "spawn"}
skipping = MultiProcessRunner(flow, 1, on_error="skip", **fresh)
print([array.size for array, in skipping])
try:
    list(MultiProcessRunner(flow, 1, **fresh))
except OSError as error:
    print(type(error).__name__, error.errno)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert output.stdout.splitlines() == [str([9] * 8), "OSError 27"], output.stderr


MAIN = """
import dataclasses, enum
from towerpack_dataflow import *

@dataclasses.dataclass
class Point:
    x: int

class Kind(enum.Enum):
    ODD = 1
    EVEN = 0

def turn(dp):
    assert isinstance(dp[0], Point)
    return [Point(-dp[0].x), Kind(dp[0].x % 2)]

points = [[Point(number)] for number in range(40)]
for method in ("spawn", "fork"):
    flow = MultiProcessMapData(points, 2, turn, start_method=method)
    got = list(flow)
    print(all(type(point) is Point and type(kind) is Kind for point, kind in got), [p.x for p, _ in got][-1])
"""


def test_objects_of_classes_of_the_main_module():
    output = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, text=True, timeout=60)
    assert (output.stdout, output.stderr) == ("True -39\n" * 2, "")


@dataclasses.dataclass
class Hidden:
    """Unpickles only in the process that made it."""

    pid: int

    def __reduce__(self):
        return _only_in, (self.pid,)


def _only_in(pid):
    if os.getpid() != pid:
        raise ImportError("no module named 'hidden'")
    return Hidden(pid)


def test_an_input_that_does_not_unpickle_is_named():
    flow = MultiProcessMapData([[Hidden(os.getpid())]], 1, list, start_method="fork")
    _, error = read_until_error(flow)
    assert type(error).__name__ == "SendError" and "no module named 'hidden'" in str(error)


@pytest.mark.long
def test_messages_larger_than_a_sockets_buffer_do_not_block():
    """Both ends have much to say: neither may wait for the other one to read."""
    source = DataFromGenerator(lambda: ([np.zeros(4096, np.uint8) for _ in range(9000)] for _ in range(12)))
    flow = MultiProcessMapData(source, 1, lambda dp: dp, start_method="fork")
    assert [len(datapoint) for datapoint in flow] == [9000] * 12
    flow.close()


def test_a_failure_in_a_stream_leaves_no_task_behind():
    flow = stream(lambda dp: [threading.Lock()] if dp[0] == 30 else dp)
    for _ in range(3):
        assert len(read_until_error(flow)[0]) == 30
    flow.close()
