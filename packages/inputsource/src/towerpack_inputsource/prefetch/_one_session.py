"""Sessions: one at a time for each source, with fast calls, and with classified errors."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

from towerpack_dataflow import DataFlow, flows_read_here

from .._errors import SetupError
from ._flow_reader import in_itself

__all__ = [
    "END_OF_DATA",
    "LOST_SESSION",
    "QUEUE_CLOSED",
    "OneSession",
    "SessionClosedError",
    "SourceHook",
    "close_in_time",
    "ends_run_on_error",
    "fast_callable",
    "session_may_be_closed",
]

# A monitored session treats the first as a normal end, and creates a new session after the others.
END_OF_DATA: tuple[type[Exception], ...] = (tf.errors.OutOfRangeError,)
LOST_SESSION: tuple[type[Exception], ...] = (tf.errors.AbortedError, tf.errors.UnavailableError)
# The errors of a put to a closed queue, and of any op during the closing of its session.
QUEUE_CLOSED: tuple[type[Exception], ...] = (tf.errors.CancelledError, tf.errors.AbortedError)
# A closed session raises either of them with one of these texts; both types also have other causes.
_REFUSALS: tuple[type[Exception], ...] = (RuntimeError, tf.errors.FailedPreconditionError)
_WORDS = ("closed session", "session is closed", "session has been closed", "session was closed")

# The maximum time to wait for the closing of a session, which takes milliseconds unless an op is stuck.
_CLOSE_SECONDS = 2.0


class SessionClosedError(Exception):
    """An op was run in a closed session."""


@contextlib.contextmanager
def session_may_be_closed() -> Iterator[None]:
    """Raises a `SessionClosedError` if an op failed because its session or queue is closed.

    Raises:
        SessionClosedError: the session is closed; the cause is TensorFlow's error.
    """
    try:
        yield
    except QUEUE_CLOSED as error:
        raise SessionClosedError from error
    except _REFUSALS as error:
        text = str(error).lower()
        if any(words in text for words in _WORDS):
            raise SessionClosedError from error
        raise


def close_in_time(session: tf.Session) -> None:
    """Makes `session.close()` return even if an op never ends; call it when the session is created.

    TensorFlow's method waits for ops that it cannot cancel, such as Python code called by a dataset; so does
    the deletion of the session. Here a thread closes the session and keeps a reference to it until then.
    """
    close = session.close
    if "close" in vars(session):
        return  # done by another source

    def close_aside() -> None:
        if sys.is_finalizing():  # a session that is deleted with the process: no thread starts any more
            close()
            return
        thread = threading.Thread(target=close, name="towerpack-close", daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)
        vars(session).pop("close", None)

    session.close = close_aside


def fast_callable(
    session: tf.Session,
    ops: Sequence[tf.Operation] = (),
    feeds: Sequence[tf.Tensor] = (),
    fetches: Sequence[tf.Tensor] = (),
    options: tf.RunOptions | None = None,
) -> Callable[..., list[Any]]:
    """Returns a function that runs ops in a session, like `session.make_callable` with less overhead.

    With a feed list, make_callable() calls Session.run(), which rebuilds the feed dict in each call; without
    one, TensorFlow looks up ops and fetches by name in each call. The callable that Keras has used since
    TensorFlow 1.6 is identified by a number and does neither; remote sessions may not support it.

    TensorFlow's callable is made at the first call: it prunes and optimises the whole graph, which takes a
    second for a graph with a thousand variables.

    Args:
        session: the session of each call; its graph may be final.
        ops: ops to run.
        feeds: tensors to feed with the arguments of the function, in this order.
        fetches: tensors to return, as a list of values.
        options: options of each call that need no metadata. They are ignored by a session that does not
            support such callables.
    """
    wanted = config_pb2.CallableOptions(
        feed=[tensor.name for tensor in feeds],
        fetch=[tensor.name for tensor in fetches],
        target=[op.name for op in ops],
        run_options=options,
    )

    @functools.cache
    def make() -> Callable[..., Any]:
        try:
            return session._make_callable_from_options(wanted)  # type: ignore[no-any-return]
        except (AttributeError, tf.errors.UnimplementedError):
            run = session.make_callable([list(fetches), list(ops)], list(feeds) or None)
            return lambda *values: run(*values)[0]

    return lambda *values: make()(*values)


def _nothing(*_: Any) -> None:
    """The default of a `SourceHook`."""


@final
class SourceHook(tf.train.SessionRunHook):
    """Calls methods of a source with its session. It adds no cost to a step, since it has no before_run.

    Args:
        begin: called after the graph is complete and before the session exists.
        start: called with the new session and its coordinator.
        end: called before the session is closed.
    """

    def __init__(
        self,
        *,
        begin: Callable[[], object] = _nothing,
        start: Callable[[tf.Session, tf.train.Coordinator], object] = _nothing,
        end: Callable[[], object] = _nothing,
    ) -> None:
        self._begin, self._start, self._end = begin, start, end

    def begin(self) -> None:
        """Calls `begin`."""
        self._begin()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Calls `start`."""
        self._start(session, coord)

    def end(self, session: tf.Session) -> None:
        """Calls `end`."""
        self._end()


_CLAIM = "_towerpack_reader"
_MEMBERS_LOOKED_AT = 64


@final
class OneSession(tf.train.SessionRunHook):
    """Refuses a second live session, and a flow that another source reads.

    A flow has one position and one random number generator: with two readers, each would save the position of
    the other. The hook adds no cost to a step, since it has no `before_run`.

    Args:
        source: name of the source, for errors.
        flows: returns the flows that the source reads.
    """

    def __init__(self, source: str, flows: Callable[[], Sequence[Any]]) -> None:
        self.source = source
        self._flows = flows
        self._coord: tf.train.Coordinator | None = None
        self._claimed: list[Any] = []

    @property
    def is_live(self) -> bool:
        """Whether the source is in use; after an error, only the coordinator shows that it no longer is."""
        return self._coord is not None and not self._coord.should_stop()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Claims the flows.

        Raises:
            SetupError: the source is in use by another session, or one of its flows by another source.
        """
        with ends_run_on_error(coord):
            self._claim_all()
        self._coord = coord

    def _claim_all(self) -> None:
        if self.is_live:
            raise SetupError(
                f"{self.source} already runs in a session and serves one at a time: a second one would end "
                "the first. Close the first session, or create a graph and a source for each."
            )
        self._release()
        shared = [part for flow in self._flows() for part in _with_one_reader(flow)]
        for part in shared:
            reader = _reader_of(part)
            if reader is not None and reader is not self:
                raise SetupError(
                    f"{part!r} is already read by {reader.source}, so {self.source} cannot read it at the "
                    "same time. A flow has one position: create a separate flow for each."
                )
        self._claimed = [part for part in shared if _claim(part, self)]

    def end(self, session: tf.Session) -> None:
        """Releases the flows."""
        self._coord = None
        self._release()

    def _release(self) -> None:
        for part in self._claimed:
            if _reader_of(part) in (self, None):
                vars(part).pop(_CLAIM, None)
        self._claimed = []


@contextlib.contextmanager
def ends_run_on_error(coord: tf.train.Coordinator) -> Iterator[None]:
    """Stops the other sources if a session cannot start, since TensorFlow does not end its hooks then."""
    try:
        yield
    except BaseException:
        coord.request_stop()
        raise


@final
class _Claim:
    """The mark on a flow that a source reads. Copies of the flow, such as a worker's, are unmarked."""

    __slots__ = ("_flow", "_reader")

    def __init__(self, flow: Any, reader: OneSession) -> None:
        self._flow = id(flow)
        self._reader = weakref.ref(reader)

    def reader(self, flow: Any) -> OneSession | None:
        """Returns the live reader of this flow; None without a reader, or if the flow is a copy."""
        reader = self._reader()
        return reader if reader is not None and reader.is_live and self._flow == id(flow) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _claim(part: Any, reader: OneSession) -> bool:
    """Marks a flow; returns whether that is possible."""
    if not hasattr(part, "__dict__"):
        return False
    vars(part)[_CLAIM] = _Claim(part, reader)
    return True


def _reader_of(part: Any) -> OneSession | None:
    claim = getattr(part, "__dict__", {}).get(_CLAIM)
    return claim.reader(part) if isinstance(claim, _Claim) else None


def _with_one_reader(flow: Any) -> list[Any]:
    """Returns a flow, if it has a state, and the streams below it that this process reads.

    An addressable flow below another one uses no state: each datapoint is made on request.
    """
    flow = in_itself(flow)
    found = {id(flow): flow} if hasattr(flow, "state_dict") else {}
    for top in [flow] if isinstance(flow, DataFlow) else _flows_held(flow):
        found.update((id(part), part) for part in flows_read_here(top) if not part.addressable)
    return list(found.values())


def _flows_held(iterable: Any) -> Iterator[DataFlow]:
    """Yields the flows among the attributes of an iterable that is not a flow."""
    for value in list(getattr(iterable, "__dict__", {}).values()):
        members = value[:_MEMBERS_LOOKED_AT] if isinstance(value, (list, tuple)) else [value]
        yield from (member for member in members if isinstance(member, DataFlow))
