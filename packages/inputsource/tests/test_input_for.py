"""Which input a flow gets, and that moving it into a worker changes nothing but the speed."""

import logging
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessRunner,
)
from towerpack_inputsource import QueueInput, StagingInput, input_for
from towerpack_inputsource.prefetch import in_itself

SPECS = [tf.TensorSpec([2], tf.int32, "x")]


def make_busy():
    """Local, so that a worker needs not import this module, and TensorFlow with it."""

    def busy(number):
        end = time.thread_time() + 2e-3
        while time.thread_time() < end:
            number += 0
        return [np.int32(number)]

    return busy


busy = make_busy()


def slow_flow(function=busy, **options):
    return BatchData(MapData(DataFromList(range(12), shuffle=True), function, **options), 2)


def moved(source):
    """Whether the flow was in a worker in the end."""
    return getattr(source._flow, "in_worker", False)


def children():
    """This process's children."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


def take(source, number):
    """That many datapoints, and the position after them."""
    with tf.Graph().as_default():
        source.setup(SPECS)
        [x] = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            taken = [session.run(x).tolist() for _ in range(number)]
            return taken, source.state_dict()["flow"]


def test_costly_work_moves_into_a_worker(caplog):
    flow = slow_flow()
    with caplog.at_level(logging.INFO, logger="towerpack_inputsource"):
        source = input_for(flow)
        take(source, 3)
    assert type(source) is QueueInput and moved(source)
    assert "ms of processor time, so it runs in a worker process" in caplog.text
    assert "data=QueueInput(flow)" in caplog.text


def test_the_datapoints_and_the_position_stay_the_same():
    def source(kind):
        made = kind(slow_flow())
        made.seed(5)
        return made

    here, position = take(source(QueueInput), 8)
    beside = source(input_for)
    there, there_position = take(beside, 8)
    assert here == there and there_position == position and moved(beside)
    for kind, state in [(input_for, position), (QueueInput, there_position)]:
        resumed = source(kind)
        resumed.load_state_dict({"flow": state})
        assert take(resumed, 4)[0] == take(source(QueueInput), 12)[0][8:]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataFromList(list(range(100))),
        lambda: BatchData(DataFromList([[np.zeros(3)]] * 64, shuffle=True), 16),
        lambda: [[1], [2]],
        lambda: DataFromGenerator(lambda: iter([[1], [2]])),
        lambda: MapData(DataFromGenerator(lambda: iter(range(12))), busy),
        lambda: MultiProcessRunner(slow_flow(), 2),
        lambda: MapData(MultiProcessRunner(slow_flow(), 2), lambda x: x),
        lambda: slow_flow(drops=True),
        lambda: DataFromList([]),
        lambda: MapData(DataFromList([1]), busy),
    ],
    ids=[
        "cheap",
        "arrays",
        "list",
        "generator",
        "stream",
        "workers",
        "workers below",
        "drops",
        "empty",
        "one",
    ],
)
def test_other_flows_stay_as_they_are(make):
    flow = make()
    source = input_for(flow)
    assert in_itself(source._flow) is flow
    for _, _ in zip(range(9), source._flow):
        pass
    assert not moved(source)


def test_nothing_is_made_and_no_process_started_before_the_session():
    calls = []

    def noted(number):
        calls.append(number)
        return busy(number)

    flow = slow_flow(noted)
    before = set(threading.enumerate()), children()
    input_for(flow)
    assert not set(threading.enumerate()) - before[0] and children() == before[1] and calls == []
    assert flow.state_dict()["index"] == 0 and len(list(flow)) == 6


def test_each_datapoint_is_made_once():
    """Stateful functions and global random numbers behave as without the measurement."""
    made, state = [], np.random.get_state()

    def noted(number):
        made.append((number, np.random.random()))
        return [np.int32(number)]

    flow = MapData(DataFromList(range(12), shuffle=True), noted)
    flow.seed(3)
    source = input_for(BatchData(flow, 2))
    pass_ = [int(n) for batch in source._flow for n in batch[0]]
    assert [number for number, _ in made] == pass_ and not moved(source)
    np.random.set_state(state)
    assert [value for _, value in made] == [np.random.random() for _ in range(12)]


@pytest.mark.parametrize("steps", range(1, 8))
def test_the_position_within_the_measured_datapoints(steps):
    def position_after(flow):
        flow.seed(5)
        datapoints = iter(flow)
        taken = [next(datapoints) for _ in range(steps)]
        return np.concatenate([batch[0] for batch in taken]).tolist(), flow.state_dict()

    cheap = lambda: BatchData(MapData(DataFromList(range(20), shuffle=True), lambda n: [np.int32(n)]), 2)  # noqa: E731
    measured = input_for(cheap())._flow
    assert position_after(measured) == position_after(cheap())
    again = input_for(cheap())._flow
    again.load_state_dict(measured.state_dict())
    assert sum(len(batch[0]) for batch in again) == 20 - 2 * steps
    assert again.state_dict() == {**measured.state_dict(), "epoch": 1, "index": 0}


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_pass_of_a_few_datapoints_ends_where_it_did(in_blocks):
    def passes(flow):
        flow.seed(5)
        return [[value for [row] in values(flow) for value in np.ravel(row)] for _ in range(3)]

    def values(flow):
        return (flow.iter_blocks(4, 1) if in_blocks else None) or iter(flow)

    def few():
        return BatchData(MapData(DataFromList(range(5), shuffle=True), busy), 1)

    measured = input_for(few())._flow
    assert passes(measured) == passes(few())
    assert measured.in_worker and measured.state_dict()["epoch"] == 3


def test_a_flow_that_cannot_be_pickled_stays_with_the_reason(caplog):
    lock = threading.Lock()

    def locked(number):
        with lock:
            return busy(number)

    flow = slow_flow(locked)
    with caplog.at_level(logging.INFO, logger="towerpack_inputsource"):
        source = input_for(flow)
        take(source, 2)
    assert not moved(source)
    assert "stays in this process: it cannot be pickled (TypeError: cannot pickle" in caplog.text


def test_very_large_values_are_unchanged(caplog, monkeypatch):
    monkeypatch.setattr("towerpack_inputsource._input_for._MOST_BYTES_TO_SEND", 2**20)
    table = np.zeros(2**20 + 1, np.uint8)
    flow = slow_flow(lambda number: busy(number + int(table[0])))
    with caplog.at_level(logging.INFO, logger="towerpack_inputsource"):
        source = input_for(flow)
        take(source, 2)
    assert not moved(source)
    assert "it holds more than 1 MB" in caplog.text


def test_a_flow_that_fails_does_so_in_the_training():
    calls = []

    def fail(number):
        calls.append(number)
        if len(calls) == 5:
            raise LookupError(f"nothing at {number}")
        return busy(number)

    source, taken = input_for(slow_flow(fail)), []
    with pytest.raises(LookupError, match="nothing at") as caught:
        for batch in source._flow:
            taken.append(batch)
    assert len(taken) == 2 and len(calls) == 5 and caught.value.args == (f"nothing at {calls[-1]}",)


def test_gpus_get_staging():
    source = input_for([[1]], on_gpu=True)
    assert type(source) is StagingInput and type(source.source) is QueueInput


def test_an_iterator_is_refused():
    with pytest.raises(TypeError, match="allows only one pass"):
        input_for(iter([[1]]))


def slow_rows(values, work=busy):
    class SlowRows:
        """A stored array that takes some milliseconds for each row."""

        def __init__(self):
            self.shape, self.dtype = values.shape, values.dtype

        def __getitem__(self, rows):
            read = values[rows]
            for _ in range(len(read)):
                work(0)
            return read

    return SlowRows()


@pytest.mark.parametrize("slow", [False, True])
def test_a_flow_of_blocks_is_measured_too(slow):
    values = np.arange(60, dtype=np.int32)
    flow = BatchData(DataFromArrays([slow_rows(values) if slow else values], shuffle=False), 2)
    flow.seed(0)
    source = input_for(flow)
    datapoints, position = take(source, 40)
    assert moved(source) is slow
    assert np.array_equal(np.concatenate(datapoints), np.concatenate([values, values[:20]]))
    assert position == {**flow.state_dict(), "epoch": 1, "index": 10}
