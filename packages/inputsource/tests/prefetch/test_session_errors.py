"""Errors of a flow that mean something to TensorFlow, and sessions that are closed under a thread."""

import logging
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import DataFromList
from towerpack_inputsource import FeedInput, FlowEndError, FlowPreemptionError, QueueInput, StagingInput
from towerpack_inputsource.prefetch import SessionClosedError, session_may_be_closed

N = tf.TensorSpec([], tf.int32, "n")
LOST = [tf.errors.UnavailableError, tf.errors.AbortedError]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(source):
    source.setup([N])
    return source, source.get_input_tensors()[0]


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


class Fails:
    """A flow that raises an error in place of a datapoint, or when a pass begins."""

    def __init__(self, error, at):
        self.error, self.at, self.passes = error, at, 0

    def __iter__(self):
        self.passes += 1
        if self.at is None:
            raise self.error
        return self._pass()

    def _pass(self):
        yield from [[k] for k in range(self.at)]
        raise self.error


@pytest.mark.parametrize("at", [None, 0, 2])
@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("make", [QueueInput, FeedInput, lambda flow: StagingInput(QueueInput(flow))])
def test_an_error_that_looks_like_a_preemption_leaves_as_one_of_the_flow(make, error, at):
    flow = Fails(error(None, None, "the storage is gone"), at)
    source, n = build(make(flow))
    with (
        pytest.raises(FlowPreemptionError, match=r"Datapoint .*UnavailableError|AbortedError") as caught,
        running(source) as session,
    ):
        for _ in range(9):
            session.run(n)
    assert isinstance(caught.value.__cause__, error) and flow.passes == 1


@pytest.mark.parametrize("make", [QueueInput, FeedInput])
def test_the_end_of_something_else_when_a_pass_begins(make):
    source, n = build(make(Fails(tf.errors.OutOfRangeError(None, None, "its own"), None)))
    with pytest.raises(FlowEndError, match=r"Datapoint 0 .*OutOfRangeError"), running(source) as session:
        session.run(n)


@pytest.mark.parametrize("make", [QueueInput, FeedInput, lambda flow: StagingInput(QueueInput(flow))])
def test_an_error_when_the_first_pass_begins_comes_alone(make, caplog):
    source, n = build(make(Fails(KeyError("no such file"), None)))
    with pytest.raises(KeyError, match="no such file") as caught, running(source) as session:
        session.run(n)
    assert "Datapoint 0 (number 0 of pass 0" in "".join(caught.value.__notes__)
    assert "_pump" not in caplog.text and "AttributeError" not in caplog.text
    assert source.state_dict() == {"flow": None}


@pytest.mark.parametrize(
    ("error", "closed"),
    [
        (RuntimeError("Attempted to use a closed Session."), True),
        (tf.errors.CancelledError(None, None, "Session has been closed."), True),
        (tf.errors.FailedPreconditionError(None, None, "Session has been closed."), True),
        (RuntimeError("Graph is finalized and cannot be modified."), False),
        (RuntimeError("of an op"), False),
        (tf.errors.FailedPreconditionError(None, None, "not initialized"), False),
        (KeyError("closed session"), False),
    ],
)
def test_only_a_closed_session_is_one(error, closed):
    with pytest.raises(SessionClosedError if closed else type(error)), session_may_be_closed():
        raise error


def test_a_session_that_is_really_closed():
    n = tf.constant(1)
    session = tf.Session()
    session.close()
    with pytest.raises(SessionClosedError), session_may_be_closed():
        session.run(n)


class Blocked:
    """A flow that waits for a gate instead of its second datapoint."""

    def __init__(self):
        self.gate = threading.Event()
        self.arrived = threading.Event()

    def __repr__(self):
        return "Blocked()"

    def __iter__(self):
        yield [0]
        self.arrived.set()
        assert self.gate.wait(60)
        yield [1]


@pytest.fixture
def short_grace(monkeypatch):
    monkeypatch.setattr("towerpack_inputsource.prefetch._session_thread._GRACE_SECONDS", 0.2)


@pytest.mark.parametrize("make", [QueueInput, lambda flow: StagingInput(QueueInput(flow))])
@pytest.mark.parametrize("leave", [None, KeyError])
@pytest.mark.usefixtures("short_grace")
def test_a_blocked_flow_is_waited_for_once_and_named(make, leave, caplog):
    flow = Blocked()
    source, n = build(make(flow))
    with caplog.at_level(logging.WARNING, "towerpack_inputsource"):
        if leave is None:
            with running(source) as session:
                session.run(n)
                assert flow.arrived.wait(20)
        else:
            with pytest.raises(leave), running(source) as session:
                session.run(n)
                assert flow.arrived.wait(20)
                raise leave
    busy = [record.getMessage() for record in caplog.records if "busy" in record.getMessage()]
    assert busy == [
        "The flow Blocked() is still busy with its next datapoint 0.2 s after the end of the run; its thread "
        "will end with it."
    ]
    flow.gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("towerpack"):
            thread.join(20)


@pytest.mark.parametrize("kind", [QueueInput, FeedInput])
def test_the_state_after_a_restart_is_that_of_the_pass_that_began(kind):
    """Not of the first one: the order of a shuffled pass depends on its number."""
    flow = DataFromList([[np.int32(k)] for k in range(20)], shuffle=True)
    flow.seed(3)
    source, n = build(kind(flow))
    with running(source) as session:
        for _ in range(5):
            session.run(n)
        source.reset_state()
        state = source.state_dict()
        expected = [int(session.run(n)) for _ in range(20)]
    assert state["flow"]["epoch"] >= 1 and state["flow"]["index"] == 0
    with tf.Graph().as_default():
        again, n = build(kind(DataFromList([[np.int32(k)] for k in range(20)], shuffle=True)))
        again.load_state_dict(state)
        with running(again) as session:
            assert [int(session.run(n)) for _ in range(20)] == expected
