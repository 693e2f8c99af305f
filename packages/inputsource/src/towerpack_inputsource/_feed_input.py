"""Sources that are fed with each session call: by the caller, or by the main thread with a datapoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._errors import SetupError, SpecError
from ._flow_input import FlowInput
from ._source import NO_PAUSE, InputSource, check_at_least
from .prefetch._flow_reader import (
    FlowReader,
    Position,
    flow_state,
    makes_blocks,
    needs_no_training,
    unread_state,
)
from .prefetch._one_session import END_OF_DATA, LOST_SESSION, ends_run_on_error
from .specs import Array, compile_block_check, compile_check, component_of

__all__ = ["FeedInput", "PlaceholderInput", "fed_placeholder", "placeholder_for"]


@final
class PlaceholderInput(InputSource):
    """Creates only placeholders, for a predictor or a loop that feeds data itself.

    The placeholders are named after the specs, independent of the name scope. An existing placeholder with
    the same name, dtype and shape is reused, so all calls and sources give the same placeholders.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     source = PlaceholderInput()
        ...     source.setup([tf.TensorSpec([None], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     print(session.run(2 * x, {"x:0": [1, 2]}))
        [2. 4.]
    """

    feed_free = False

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self._placeholders = [placeholder_for(spec) for spec in specs]

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        return self._placeholders


def placeholder_for(spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the current graph's placeholder for a spec, creating it if necessary.

    Raises:
        SpecError: another op has the name, or the placeholder's dtype or shape does not match.
    """
    found = _op_named(spec.name)
    if found is not None and found.type != "Placeholder":
        raise SpecError(
            f"The name {spec.name!r} of {spec!r} is already used in this graph by an op of type "
            f"{found.type}. Set the source up before the model, or rename one of them."
        )
    return fed_placeholder(spec)


def fed_placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    """Works like `placeholder_for`, but uses another name if an op already has that of the spec.

    Use it if you feed by tensor: since version 2.23, TensorFlow names constants in `tf.multiply` `x` and `y`.

    Raises:
        SpecError: the placeholder's dtype or shape does not match.
    """
    found = _op_named(spec.name)
    if found is None or found.type != "Placeholder":
        with tf.name_scope(None), tf.control_dependencies(None):
            return tf.placeholder(spec.dtype, spec.shape, spec.name)
    [tensor] = found.outputs
    # Compare as text: in TensorShape, an unknown dimension equals no other.
    if tensor.dtype != spec.dtype or str(tensor.shape) != str(spec.shape):
        raise SpecError(
            f"The graph already has a placeholder {spec.name!r} of dtype {tensor.dtype.name} and shape "
            f"{tensor.shape}, but the spec declares {spec.dtype.name} and {spec.shape}. "
            "Declare the same, or another name."
        )
    return tensor


def _op_named(name: str) -> tf.Operation | None:
    try:
        return tf.get_default_graph().get_operation_by_name(name)
    except KeyError:
        return None


@final
class FeedInput(FlowInput):
    """Feeds one datapoint to every run of the session, for one tower.

    Use it for evaluation, for debugging, or to avoid threads: it does not prefetch, so the step waits for the
    flow. Every run of the hooked session takes a datapoint, even if the run does not use it.

    Args:
        df: a DataFlow, or another re-iterable object. A datapoint is a list or tuple in the
            order of the specs, or a dict by their names.
        infinite: restart at the end of a pass. Otherwise the run after the last datapoint raises
            `tf.errors.OutOfRangeError`, which ends a monitored session normally.
        ahead: the maximum number of small datapoints to read at a time, from a flow that makes blocks of them
            without waiting for the training. With 1, each is read when its run begins.

    Raises:
        TypeError: `df` cannot be iterated again.
        ValueError: `ahead` is below 1.

    Example:
        >>> import numpy as np
        >>> with tf.Graph().as_default():
        ...     source = FeedInput([[np.float32(1)], [np.float32(2)]], infinite=False)
        ...     source.setup([tf.TensorSpec([], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(x))
        1.0
        2.0
    """

    feed_free = False

    def __init__(self, df: Iterable[Any], infinite: bool = True, ahead: int = 1) -> None:
        check_at_least(1, "ahead", ahead, "the number of datapoints to read at a time")
        super().__init__(df, infinite)
        self._ahead = ahead
        # The datapoints that were read ahead, each with the position after it.
        self._read: deque[tuple[Sequence[Array], Position]] = deque()
        self._given = False
        self._was_read = False
        # The position after the datapoint of the last finished run; that of the last one taken, in a tuple,
        # if others were read after it.
        self._consumed: Position = None
        self._taken: tuple[Position] | None = None

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        if self._was_read:
            return flow_state(self._flow, self._consumed)
        return unread_state(self._flow, self._loaded)

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self._placeholders = [fed_placeholder(spec) for spec in specs]
        check = compile_check([component_of(spec) for spec in specs])
        in_blocks = self._ahead > 1 and makes_blocks(self._flow) and needs_no_training(self._flow)
        self._reader = FlowReader(
            self._flow,
            self.infinite,
            check,
            END_OF_DATA,
            LOST_SESSION,
            compile_block_check(specs) if in_blocks else None,
            self._ahead,
        )

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        if self._given:
            raise SetupError(
                "FeedInput.get_input_tensors() was called a second time, but it would feed both towers the "
                "same datapoint. Use QueueInput for more than one tower."
            )
        self._given = True
        return self._placeholders

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [_FeedHook(self)]

    def _reset_state(self) -> None:
        self._start(None)

    def _prepare(self) -> None:
        self._reader.prepare()

    def _start(self, position: Position) -> None:
        self._read.clear()
        self._consumed = self._reader.restart(position)
        self._taken = (self._consumed,)
        self._was_read, self._loaded = True, None

    def next_feeds(self, most: int) -> list[Sequence[Array]]:
        """Returns the arrays to feed in the next runs, for a loop that does not use this source's hooks.

        Those of a run are in the order of the specs. The datapoints of earlier calls then count as consumed.

        Args:
            most: the maximum number of datapoints; only those that were read ahead follow the first one.

        Raises:
            OutOfRangeError: the pass has ended.
            Exception: an error of the flow.
        """
        self._mark_consumed()
        feeds = [self._next_arrays()]
        for _ in range(min(most - 1, len(self._read))):
            arrays, position = self._read.popleft()
            self._taken = (position,)
            feeds.append(arrays)
        return feeds

    def _next_arrays(self) -> Sequence[Array]:
        try:
            if not self._read and (block := self._reader.read_block()) is not None:
                stacks, positions = block
                self._read.extend(zip(zip(*stacks), positions))
            if self._read:
                arrays, position = self._read.popleft()
                self._taken = (position,)
            else:
                arrays, self._taken = self._reader.dequeue(), None
        except StopIteration:
            # A monitored session recognises a normal end by exactly this type.
            raise tf.errors.OutOfRangeError(
                None, None, "FeedInput has given each datapoint of the pass."
            ) from None
        return arrays

    def _mark_consumed(self) -> None:
        self._consumed = self._reader.position() if self._taken is None else self._taken[0]


@final
class _FeedHook(tf.train.SessionRunHook):
    """Feeds each run, and counts a datapoint as consumed at the end of its run."""

    def __init__(self, source: FeedInput) -> None:
        self._source = source

    def begin(self) -> None:
        self._source._prepare()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        with ends_run_on_error(coord):
            self._source._start(self._source._loaded)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        feeds = dict(zip(self._source._placeholders, self._source._next_arrays()))
        return tf.train.SessionRunArgs(fetches=None, feed_dict=feeds)

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        self._source._mark_consumed()
