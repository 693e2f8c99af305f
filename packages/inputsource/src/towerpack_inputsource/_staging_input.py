"""Input prefetched to the towers' devices, from any source without feeds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._errors import NotRunningError, SetupError, StagingError
from ._proxy_source import ProxyInputSource
from ._source import NO_PAUSE, InputSource, check_at_least, make_counter
from .prefetch._flow_reader import Position
from .prefetch._input_status import InputStatus
from .prefetch._one_session import SourceHook, close_in_time, fast_callable
from .prefetch._session_thread import SessionThread
from .specs import Array

__all__ = ["StagingInput", "StagingOps"]

# The maximum time that `state_dict()` waits for a source whose position is known only while no take is
# active.
_PAUSE_SECONDS = 60.0


@final
class StagingInput(ProxyInputSource):
    """Copies datapoints to the towers' devices ahead of the step, from any source without feeds.

    Use it on GPUs, so that the step does not wait for the copy; on a CPU it has no benefit. A thread copies
    the datapoints. The other source's ops, such as decoding in the graph, also run ahead of the step.

    A round is one datapoint for each tower, and rounds are complete: every run must use the input of all
    towers or of none. After a run that used only some, the next run fails with the tower's number.

    The position is that of the step: staged datapoints count as not consumed. At the end of the data, staged
    datapoints are still delivered, so an evaluation can also use the source.

    Args:
        source: the other source.
        stages: number of rounds to store on the devices, in addition to the round in use and the round being
            copied.
        device: the target device; by default each tower's device.

    Raises:
        TypeError: `source` is not an InputSource.
        SetupError: `source` already stages, or (at `setup()`) needs feeds.
        ValueError: `stages` is below 1.

    Example:
        >>> from towerpack_inputsource import QueueInput
        >>> with tf.Graph().as_default():
        ...     source = StagingInput(QueueInput([[1], [2]], infinite=False))
        ...     source.setup([tf.TensorSpec([], tf.int32, "n")])
        ...     [n] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(n))
        1
        2
    """

    def __init__(self, source: InputSource, stages: int = 1, device: Any = None) -> None:
        super().__init__(source)
        check_at_least(1, "stages", stages, "the number of rounds to hold on the devices")
        inner: Any = source
        while isinstance(inner, ProxyInputSource):
            if isinstance(inner, StagingInput):
                raise SetupError(
                    f"{source!r} already stages. Increase its stages= instead of adding a second "
                    "StagingInput."
                )
            inner = inner.source
        self._stages = stages
        self._device = device
        self._resumes = False
        self._thread: SessionThread | None = None
        self._taken: list[tf.Tensor] = []
        self._final: dict[str, Any] | None = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position of the other source."""
        super().load_state_dict(state)
        self._resumes = True

    def status(self) -> InputStatus:
        """Returns the other source's status, with the staged rounds."""
        inner, name = super().status(), type(self).__name__
        own = InputStatus(name) if self._thread is None else self._thread.status(name)
        return InputStatus(
            f"{name} of {inner.source}", inner.buffers + own.buffers, inner.threads + own.threads
        )

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        super()._setup(specs)
        if not self.source.feed_free:
            raise SetupError(
                f"StagingInput takes from its source ahead of the step, but {type(self.source).__name__} "
                "needs feeds in each step. Use QueueInput, TFDatasetInput or TensorInput."
            )
        with (
            tf.name_scope(None),
            tf.name_scope("StagingInput"),
            tf.device("/cpu:0"),
            tf.control_dependencies(None),
        ):
            self._ops = StagingOps(self._stages)

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        # In the order of the towers, so that the assignment of datapoints to towers is reproducible.
        with tf.control_dependencies(self._taken):
            tensors = self._taken = list(super()._get_input_tensors(specs))
        with tf.name_scope("StagingInput"):
            staged = self._ops.dequeue(tensors, self._device)
            return [tf.identity(tensor, spec.name) for tensor, spec in zip(staged, specs)]

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        # The thread takes from the other source, so it starts after and ends before it.
        start = SourceHook(begin=self._prepare, start=self._start)
        return [SourceHook(end=self._finish), *super()._hooks(), start]

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        if self._final is not None:
            return dict(self._final)
        if self._thread is None:
            return super()._state()
        return super()._state(self._thread.taken() * self._ops.towers, self._reader.paused())

    def _abandon(self) -> None:
        self._reader.abandoned = True
        super()._abandon()

    def _reset_state(self) -> None:
        if self._thread is None:
            raise self._no_session("reset_state")
        self._thread.restart()

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        if self._thread is not None:
            self._thread.finish()  # the session was lost and recreated
        self._final = None
        close_in_time(session)
        self._reader = _RoundReader(self.source, self._ops, self._held(), session)
        self._thread = SessionThread(self._ops, self._reader, session, coord)
        # The other source has already started; only whether it started at the beginning matters here.
        self._thread.start({} if self._resumes else None)
        self._resumes = False

    def _held(self) -> int:
        """Returns the maximum number of staged, untaken rounds: announced, waiting, and one in between."""
        return self._stages + 2

    def _prepare(self) -> None:
        self.source._hold_back(self._held() * self._ops.towers)

    def _finish(self) -> None:
        if self._thread is None:
            return
        self._interrupt()
        if not self._thread.finish():
            self._abandon()
        with contextlib.suppress(NotRunningError):
            self._final = self._state()


@final
class _RoundReader:
    """The `Reader` of the thread: a dequeue copies a round to the devices and returns no arrays.

    Attributes:
        abandoned: whether the run ended while a dequeue was still active.
    """

    def __init__(self, source: InputSource, ops: StagingOps, held: int, session: tf.Session) -> None:
        self._between_rounds = threading.Lock()
        self._source = source
        self._fill = fast_callable(session, ops.fill)
        # A single tower cannot be skipped.
        self._counts = session.make_callable(ops.counts) if ops.towers > 1 else None
        self._held = held
        self._began = False
        self.abandoned = False

    def __repr__(self) -> str:
        return type(self._source).__name__

    def restart(self, position: Position = None) -> Position:
        if self._began:
            self._source.reset_state()
        self._began = True
        self._staged = 0
        return None

    def release(self) -> None:
        pass  # done by the source's own loop

    def dequeue(self) -> list[Array]:
        with self._between_rounds:
            try:
                self._fill()
            except tf.errors.OutOfRangeError:
                raise StopIteration from None
        self._staged += 1
        if self._counts is not None:
            self._expect_all(self._counts())
        return []

    def read(self) -> Any:
        return self.dequeue()

    def read_block(self) -> None:
        return None

    def checked(self, datapoint: Any) -> list[Array]:
        return list(datapoint)

    def position(self) -> Position:
        return None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        if not self._between_rounds.acquire(timeout=0 if self.abandoned else _PAUSE_SECONDS):
            raise NotRunningError(
                f"{type(self._source).__name__} has been busy with its next datapoint for "
                f"{_PAUSE_SECONDS:g} s, or since the run ended, so its position is unknown."
            )
        try:
            yield
        finally:
            self._between_rounds.release()

    def _expect_all(self, counts: Sequence[int]) -> None:
        left_out = [tower for tower, count in enumerate(counts) if self._staged - count > self._held]
        if left_out:
            raise StagingError(
                f"{self._staged} rounds were staged, but the towers have taken {list(map(int, counts))}: "
                f"the input of the towers {left_out} (from 0) was skipped. Every run must use the input of "
                "all towers or of none."
            )


@final
class StagingOps:
    """Staging areas for rounds of one datapoint per tower. See `BufferOps` for the ops.

    An area cannot be closed, and a dequeue from an empty area waits forever. Therefore each staged round is
    announced in a queue on the CPU, and a step takes the announcement first: closing that queue ends, fails
    or wakes the step, as with any other input.

    Args:
        stages: number of rounds to announce ahead.

    Attributes:
        fill: the ops that stage the next round.
        towers: number of dequeues in a round.
        counts: the number of datapoints taken by each tower.
    """

    label = "staging"

    def __init__(self, stages: int) -> None:
        self.capacity: int | None = stages
        self.in_order = True
        self.fill: list[tf.Operation] = []
        self.placeholders: list[tf.Tensor] = []
        self.stacks: list[tf.Tensor] = []
        self.enqueue_many: tf.Operation | None = None
        self.counts: list[tf.Tensor] = []
        self._initializers: list[tf.Operation] = []
        self._clear: list[tf.Operation] = []
        queue = tf.queue.FIFOQueue(stages, [tf.bool], [[]], name="rounds")
        self._name = queue.queue_ref.op.name
        self.size = queue.size(name="staged")
        self.enqueue = queue.enqueue([True], name="announce")
        self.end = queue.close(name="end")
        self.abort = queue.close(cancel_pending_enqueues=True, name="abort")
        self.drop = tf.group(queue.dequeue(name="dropped"), name="drop")
        self._destroy = tf.raw_ops.DestroyResourceOp(resource=queue.queue_ref, ignore_lookup_error=True)
        begun = self._counter("begun")
        self.taken = begun.read_value()
        # Shared by all towers, so it runs once for any number of towers in a step.
        with tf.control_dependencies([queue.dequeue(name="begin")]):
            self._round = tf.identity(begun.assign_add(1, read_value=True))

    @property
    def towers(self) -> int:
        """The number of dequeues in a round: one for each tower."""
        return len(self.counts)

    @property
    def zero(self) -> Any:
        """Several ops that reset the counts to 0."""
        return self._initializers

    @property
    def renew(self) -> Any:
        """Several ops that empty all areas and reset the counts to 0."""
        return [self._destroy, *self._clear, *self._initializers]

    def dequeue(self, tensors: Sequence[tf.Tensor], device: Any) -> list[tf.Tensor]:
        """Adds an area for another tower to the current graph, and a dequeue from it.

        Args:
            tensors: the tensors to stage.
            device: the area's device; None is the current device.
        """
        tower = self.towers
        with tf.device("/cpu:0"):
            count = self._counter(f"taken{tower}")
            own = count.assign_add(1, read_value=True)
            # An Assert, since a cond would be slower than the whole input of a step.
            complete = tf.raw_ops.Assert(
                condition=tf.equal(own, self._round), data=[_left_out(tower), own, self._round]
            )
        self.counts.append(count.read_value())
        staged: dict[Any, tf.Tensor] = {}
        for text in (False, True):
            given = [tensor for tensor in tensors if (tensor.dtype == tf.string) == text]
            if given:
                # Only the CPU supports strings.
                where = (
                    tf.device("/cpu:0" if text else device) if text or device else contextlib.nullcontext()
                )
                with where:
                    taken = self._area(given, f"{self._name}/area{len(self._clear)}", complete)
                staged.update(zip((tensor.ref() for tensor in given), taken))
        return [staged[tensor.ref()] for tensor in tensors]

    def _area(self, tensors: Sequence[tf.Tensor], name: str, after: tf.Operation) -> list[tf.Tensor]:
        """Adds an unbounded area, so that puts never wait."""
        dtypes = [tensor.dtype for tensor in tensors]
        put = tf.raw_ops.Stage(values=tensors, shared_name=name)
        # Each device would create a separate area with that name.
        with tf.get_default_graph().colocate_with(put):
            self._clear.append(tf.raw_ops.StageClear(dtypes=dtypes, shared_name=name))
            with tf.control_dependencies([after]):
                taken = tf.raw_ops.Unstage(dtypes=dtypes, shared_name=name)
        self.fill.append(put)
        for tensor, given in zip(taken, tensors):
            tensor.set_shape(given.shape)
        return list(taken)

    def _counter(self, name: str) -> tf.Variable:
        variable = make_counter(name)
        self._initializers.append(variable.initializer)
        return variable


def _left_out(tower: int) -> str:
    return (
        f"StagingInput: an earlier run took the input of other towers but not of tower {tower} (from 0), "
        "because it used only some of them or failed. Every run must use the input of all towers or of "
        "none. Rounds of this tower, started rounds:"
    )
