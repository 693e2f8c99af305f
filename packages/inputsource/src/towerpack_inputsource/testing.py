"""The conformance check of input sources, also for custom sources.

It needs no test framework: a violation raises an `AssertionError` that names it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._errors import SetupError
from ._source import InputSource
from .prefetch._input_status import InputStatus

__all__ = ["FlowFailure", "ListFlow", "check_input_source"]

MakeSource = Callable[[Any], InputSource]
Specs = Sequence[tf.TensorSpec]
Datapoint = Sequence[Any]

_AT_ONCE = 2.0  # seconds


def check_input_source(
    make_source: MakeSource,
    specs: Specs,
    datapoints: Sequence[Datapoint] = (),
    flow_error: type[Exception] | None = None,
) -> None:
    """Checks all guarantees of an input source for loops, in real sessions.

    Args:
        make_source: creates a new source over a flow, for one pass; called several times:
            `lambda flow: MySource(flow, infinite=False)`.
        specs: the specs of the source's `setup()`.
        datapoints: at least three different datapoints that match the specs, as lists or tuples in their
            order. Omit them for a source that reads no flow: guarantees about flows are then not checked.
        flow_error: the error of a session with a failing flow; by default the flow's error.

    Raises:
        AssertionError: the source violates a guarantee; the message names it.

    Example:
        >>> from towerpack_inputsource import QueueInput
        >>> check_input_source(
        ...     lambda flow: QueueInput(flow, infinite=False),
        ...     [tf.TensorSpec([], tf.int32, "n")],
        ...     [[0], [1], [2]],
        ... )
    """
    _check_setup(make_source, specs)
    _check_session(make_source, specs)
    if not datapoints:
        return
    _expect(len(datapoints) >= 3, "give at least three datapoints, so that there is a middle")
    for has_length in (True, False):
        _check_delivery(make_source, specs, datapoints, has_length)
        _check_rounds(make_source, specs, datapoints, has_length)
    # The last check takes one datapoint too many: a dequeue without a datapoint must not count.
    for steps in range(len(datapoints) + 2):
        _check_state(make_source, specs, datapoints, steps)
    for rounds in (0, 1):
        _check_error(make_source, specs, datapoints, rounds, flow_error or FlowFailure)
    _check_early_end(make_source, specs, datapoints)


def _check_setup(make_source: MakeSource, specs: Specs) -> None:
    with tf.Graph().as_default() as graph:
        source = make_source(ListFlow([]))
        with _expect_raises(SetupError, "get_input_tensors() before setup()"):
            source.get_input_tensors()
        source.setup(specs)
        with _expect_raises(SetupError, "a second setup()"):
            source.setup(specs)
        tensors = source.get_input_tensors()
        _expect(len(tensors) == len(specs), f"{len(tensors)} tensors came for {len(specs)} specs")
        for tensor, spec in zip(tensors, specs):
            _expect(tensor.graph is graph, f"{tensor} is not in the graph of setup()")
            _expect(
                tensor.dtype == spec.dtype, f"{tensor} does not have the declared dtype {spec.dtype.name}"
            )
            _expect(
                spec.shape.is_compatible_with(tensor.shape) and tensor.shape.rank == spec.shape.rank,
                f"{tensor} does not have the declared shape {spec.shape}",
            )
            if tensor.op.type == "Placeholder":
                _expect(tensor.op.name == spec.name, f"the placeholder {tensor} is not named {spec.name!r}")
        first, second = source.hooks(), source.hooks()
        _expect(all(a is b for a, b in zip(first, second)), "hooks() returns different hooks at each call")
        _expect(
            all(isinstance(hook, tf.train.SessionRunHook) for hook in first),
            "a hook is not a tf.train.SessionRunHook",
        )


def _check_session(make_source: MakeSource, specs: Specs) -> None:
    """Checks that a session without dequeues starts and ends, and leaves no thread."""
    before = threading.enumerate()
    source = make_source(ListFlow([]))
    _expect_status(source, "before the session")
    with _running(source, specs):
        _expect_status(source, "in the session")
    _expect_status(source, "after the session")
    _expect_no_thread_since(before)


def _expect_status(source: InputSource, when: str) -> None:
    status = source.status()
    _expect(isinstance(status, InputStatus), f"status() {when} is {status!r}")
    json.dumps(status)
    _expect(str(status).startswith(status.source), f"status() as text is {status}")
    _expect(all(thread.flow_share <= 1 for thread in status.since(status).threads), f"{status} has lost time")


def _check_delivery(
    make_source: MakeSource, specs: Specs, datapoints: Sequence[Datapoint], length: bool
) -> None:
    before = threading.enumerate()
    source = make_source(ListFlow(datapoints, has_length=length))
    taken = []
    with _running(source, specs) as (session, take):
        # No condition: a normal end leaves the session's block, an endless source takes one too many.
        for _ in range(len(datapoints) + 1):
            taken.append(session.run(take))
    _expect_same(taken, datapoints, "a finite pass")
    _expect_no_thread_since(before)
    _expect(
        source.size() in {None, len(datapoints)},
        f"size() is {source.size()} for {len(datapoints)} datapoints",
    )


def _check_rounds(
    make_source: MakeSource, specs: Specs, datapoints: Sequence[Datapoint], length: bool
) -> None:
    """Checks that each evaluation round restarts, even after a round that ended in the middle."""
    everything = len(datapoints) + 1
    source = make_source(ListFlow(datapoints, has_length=length))
    with _running(source, specs) as (session, take):
        for number, steps in enumerate([everything, 1, everything, everything]):
            source.reset_state()
            taken = _take(session, take, steps)
            _expect_same(taken, datapoints[:steps], f"round {number} after reset_state()")


def _check_state(make_source: MakeSource, specs: Specs, datapoints: Sequence[Datapoint], steps: int) -> None:
    source = make_source(ListFlow(datapoints))
    with _running(source, specs) as (session, take):
        _take(session, take, steps)
        inside = source.state_dict()
    for state, when in ((inside, "in"), (source.state_dict(), "after")):
        again = make_source(ListFlow(datapoints))
        again.load_state_dict(json.loads(json.dumps(state)))
        with _running(again, specs) as (session, take):
            rest = _take(session, take, len(datapoints) + 1)
        _expect_same(rest, datapoints[steps:], f"the state after {steps} steps, read {when} the session")


def _check_error(
    make_source: MakeSource,
    specs: Specs,
    datapoints: Sequence[Datapoint],
    rounds: int,
    error: type[Exception],
) -> None:
    """Checks that an error of the flow is raised at once with its type, in any round."""
    before = threading.enumerate()
    flow = ListFlow(datapoints, fails_at=None if rounds else 1)
    source = make_source(flow)
    what = f"an error in the flow, in round {rounds},"
    with _expect_raises(error, what), _running(source, specs) as (session, take):
        for _ in range(rounds):
            source.reset_state()
            _take(session, take, len(datapoints) + 1)
            flow.fails_at = 1
            source.reset_state()
        while True:  # the end of the data would also leave the session's block
            session.run(take)
    late = time.monotonic() - flow.failed_at
    _expect(late < _AT_ONCE, f"{what} arrived after {late:.1f} s")
    _expect_no_thread_since(before)


def _check_early_end(make_source: MakeSource, specs: Specs, datapoints: Sequence[Datapoint]) -> None:
    """Checks that an error in the loop ends the run at once, regardless of prefetching."""
    before = threading.enumerate()
    with (
        _expect_raises(_LoopError, "an error in the loop"),
        _running(make_source(ListFlow(list(datapoints) * 1000)), specs) as (session, take),
    ):
        session.run(take)
        raise _LoopError
    _expect_no_thread_since(before)


class FlowFailure(Exception):
    """The failure of a `ListFlow`."""


class _LoopError(Exception):
    """The error of the loop in the check."""


@final
class ListFlow:
    """A list as a DataFlow for tests of sources, optionally with unknown length or a failure.

    Subclasses may override `_pass()`, the generator of one pass.

    Args:
        datapoints: the datapoints of a pass.
        has_length: whether `len()` works.
        fails_at: the index of the datapoint that raises `FlowFailure` instead; None for no failure.

    Attributes:
        failed_at: the time of the failure, in seconds of `time.monotonic()`.

    Example:
        >>> flow = ListFlow([[1], [2]])
        >>> next(iter(flow)), flow.state_dict()
        ([1], {'next': 1})
    """

    def __init__(
        self, datapoints: Sequence[Datapoint], has_length: bool = True, fails_at: int | None = None
    ) -> None:
        self._datapoints = datapoints
        self._has_length = has_length
        self.fails_at = fails_at
        self.failed_at = 0.0
        self._next = 0
        self._loaded = 0

    def __len__(self) -> int:
        if not self._has_length:
            raise TypeError("the length of this flow is unknown")
        return len(self._datapoints)

    def __iter__(self) -> Iterator[Datapoint]:
        self._next, self._loaded = self._loaded, 0
        return self._pass()

    def _pass(self) -> Iterator[Datapoint]:
        while self._next < len(self._datapoints):
            if self._next == self.fails_at:
                self.failed_at = time.monotonic()
                raise FlowFailure(f"datapoint {self._next} cannot be made")
            self._next += 1
            yield self._datapoints[self._next - 1]

    def reset_state(self) -> None:
        """Does nothing: the flow needs no preparation."""

    def seed(self, seed: int) -> None:
        """Does nothing: the order is fixed."""

    def state_dict(self) -> dict[str, int]:
        """Returns the position after the last datapoint."""
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Makes the next pass start at a position."""
        self._next = self._loaded = state["next"]


@contextlib.contextmanager
def _running(source: InputSource, specs: Specs) -> Iterator[tuple[Any, list[tf.Tensor]]]:
    """Opens a session over a new graph, with the source's hooks."""
    with tf.Graph().as_default():
        source.setup(specs)
        take = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            yield session, take


def _take(session: Any, take: list[tf.Tensor], steps: int) -> list[Any]:
    """Takes `steps` datapoints, or fewer at the end of the pass, which must not leave the session's block."""
    taken: list[Any] = []
    with contextlib.suppress(tf.errors.OutOfRangeError):
        for _ in range(steps):
            taken.append(session.run(take))
    return taken


def _expect(promise: bool, broken: str) -> None:
    if not promise:
        raise AssertionError(f"The input source violates a guarantee: {broken}.")


def _expect_same(taken: Sequence[Any], expected: Sequence[Datapoint], what: str) -> None:
    same = len(taken) == len(expected) and all(
        all(np.array_equal(have, want) for have, want in zip(one, other))
        for one, other in zip(taken, expected)
    )
    _expect(same, f"{what} must give {list(expected)}, but gave {taken}")


def _expect_no_thread_since(before: list[threading.Thread]) -> None:
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    _expect(not left, f"the threads {left} are still running after the session")


@contextlib.contextmanager
def _expect_raises(error: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    _expect(False, f"{what} must raise {error.__name__}")
