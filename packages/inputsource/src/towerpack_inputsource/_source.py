"""The interface between data and a graph, for trainers and custom loops."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

from ._errors import NotRunningError, SetupError
from .prefetch._flow_reader import RefittedState
from .prefetch._input_status import InputStatus
from .prefetch._one_session import OneSession
from .specs import check_specs

__all__ = ["NO_PAUSE", "InputSource", "check_at_least", "make_counter"]

NO_PAUSE = contextlib.nullcontext()


class InputSource(abc.ABC):
    """Brings datapoints into a graph.

    A source serves one graph, in one live session at a time. Its calls have this order:

    >>> from towerpack_inputsource import QueueInput
    >>> source = QueueInput([[1.0], [2.0]])
    >>> with tf.Graph().as_default():
    ...     source.setup([tf.TensorSpec([], tf.float32, "x")])  # adds the shared ops of all towers
    ...     [x] = source.get_input_tensors()  # once per tower: each call adds one dequeue
    ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
    ...         print(session.run(x), session.run(x))  # each run takes the next datapoint
    ...         state = source.state_dict()  # between steps: the position for a later run
    1.0 2.0

    Its hooks are plain `SessionRunHook`s, so any loop that runs such hooks can use it. Subclasses implement
    the methods with a leading underscore and do not override the public ones.

    Attributes:
        infinite: whether the source restarts at the end of a pass. Otherwise the run ends there, and an
            evaluation can use the source.
        feed_free: whether its tensors never need feeds, so that several towers and `StagingInput` can use the
            source.
    """

    infinite: bool = True
    feed_free: bool = True

    _specs: tuple[tf.TensorSpec, ...] | None = None
    _hook_list: tuple[tf.train.SessionRunHook, ...] | None = None
    _home: tf.Graph | None = None

    def setup(self, specs: Sequence[tf.TensorSpec]) -> None:
        """Adds the shared ops of all towers to the current graph. Call it once, in that graph.

        Args:
            specs: shape, dtype and name of each component; unknown dimensions are None.

        Raises:
            SetupError: the source is already set up, or the current graph is not usable: in eager mode or in
                a `tf.function`.
            SpecError: the specs are empty, not `tf.TensorSpec`, unnamed, or share a name.
        """
        if self._specs is not None:
            raise SetupError(
                f"{type(self).__name__}.setup() was called a second time. A source belongs to one graph: "
                "create a new source for a new graph."
            )
        self._home = _current_graph(type(self).__name__)
        narrowed = self._narrowed(check_specs(specs))
        self._setup(narrowed)
        self._specs = narrowed

    def get_input_tensors(self) -> list[tf.Tensor]:
        """Returns the tensors of one tower, in the order of the specs. Each call adds a separate dequeue.

        A session without the source's `hooks()` receives no data: its first dequeue from a queue waits
        forever.

        Returns:
            One tensor for each spec, with its dtype and a matching shape.

        Raises:
            SetupError: the source is not set up, belongs to another graph, or cannot serve another tower.
        """
        specs = self._after_setup("get_input_tensors")
        if self._home not in _graphs_around():
            raise SetupError(
                f"{type(self).__name__}.get_input_tensors() was called in another graph than setup(). A "
                "source belongs to one graph: call both in the same one, or create a new source."
            )
        return list(self._get_input_tensors(specs))

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hooks that the session must use: the same objects at each call.

        Raises:
            SetupError: the source is not set up.
        """
        self._after_setup("hooks")
        if self._hook_list is None:
            own = self._hooks()
            # A source without hooks has no state of a session.
            first = [OneSession(type(self).__name__, self._flows_read)] if own else []
            self._hook_list = (*first, *own)
        return list(self._hook_list)

    def reset_state(self) -> None:
        """Restarts at the first datapoint of a new pass, in the live session.

        Evaluations call it before each round.

        Raises:
            SetupError: the source is not set up.
            NotRunningError: the source needs a live session, but none is open.
        """
        self._after_setup("reset_state")
        self._reset_state()

    def seed(self, seed: int) -> None:
        """Seeds the data, if they can be seeded like a DataFlow; call it before the session starts."""

    @property
    def sharded(self) -> bool | None:
        """Whether the data are one process's share of an order, which needs the same seed in all processes.

        None: unknown, because the source reads no flow with this information.
        """
        return None

    @property
    def endless(self) -> bool:
        """Whether passes are known to never end, so that an evaluation cannot use the source."""
        return self.infinite

    def size(self) -> int | None:
        """Returns the number of datapoints in one pass, or None if unknown."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last consumed datapoint, regardless of prefetching.

        Call it while no step is running. Sources without a position return an empty dict. The state can be
        written as JSON if the flow's position can.

        Raises:
            NotRunningError: the session was closed before its hooks ended.
        """
        return self._state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position. Call it before the session starts.

        Args:
            state: the `state_dict()` of a source of the same kind over the same flow.

        Raises:
            ValueError: the state comes from another kind of source.
        """
        if state:
            raise ValueError(
                f"{type(self).__name__} has no position to restore, but received a state with "
                f"{sorted(state)}. The run that saved it probably used another input source."
            )

    def refit(self, state: Mapping[str, Any]) -> RefittedState | None:
        """Translates a state saved with another number of processes or another batch size.

        It changes nothing; pass the translated state to `load_state_dict()`.

        Args:
            state: the `state_dict()` of a source of the same kind, over the same data.

        Returns:
            The translated state, or None if the source does not know the batch size of its data.

        Raises:
            ValueError: the batches differ, and the rest of the pass cannot be divided into the present ones.
        """
        return None

    def status(self) -> InputStatus:
        """Returns the fill of the source's buffers and the activity of its threads, as plain data.

        It may be called from any thread, also while a step hangs, and before and after the session. For the
        time between two calls, use `source.status().since(earlier)`.
        """
        return InputStatus(type(self).__name__)

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        """Returns the specs, with unknown sizes filled in as far as the source knows them."""
        return specs

    @abc.abstractmethod
    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        """Adds the shared ops of all towers to the current graph."""

    @abc.abstractmethod
    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        """Adds one dequeue to the current graph."""

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return ()

    def _flows_read(self) -> Sequence[Any]:
        """Returns the flows that this source reads directly, to prevent other sources from reading them."""
        return ()

    def _reset_state(self) -> None:
        """Restarts at the first datapoint of a new pass; does nothing by default."""

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        """Returns the position after a number of dequeues since the session started or was last restarted.

        Args:
            dequeues: the number; None for all dequeues. A source that takes ahead of the step
                passes fewer than it has made.
            paused: a context in which no thread takes from this source; entering it may block.
        """
        return {}

    def _interrupt(self) -> None:
        """Wakes a dequeue that waits for data, if possible, since the run is over. Called before the end."""

    def _abandon(self) -> None:
        """Ends without a position, since an active dequeue cannot be interrupted. Called before the end."""

    def _hold_back(self, dequeues: int) -> None:
        """Keeps positions for a state before the newest dequeues. Called before the session is created.

        Args:
            dequeues: the maximum number of dequeues by which the argument of `_state()` may lag behind.
        """

    def _no_session(self, method: str) -> NotRunningError:
        return NotRunningError(
            f"{type(self).__name__}.{method}() needs the live session: create it with the source's hooks() "
            "first."
        )

    def _after_setup(self, method: str) -> tuple[tf.TensorSpec, ...]:
        if self._specs is None:
            raise SetupError(
                f"{type(self).__name__}.{method}() was called before setup(). "
                "Call setup(specs) once, inside the graph to be used."
            )
        return self._specs


def _current_graph(source: str) -> tf.Graph:
    """Returns the graph under construction.

    Raises:
        SetupError: there is no graph, or only that of a function.
    """
    graph = tf.get_default_graph()
    if not tf.executing_eagerly() and not hasattr(graph, "outer_graph"):
        return graph
    where = "eager mode" if tf.executing_eagerly() else f"the function {graph.name!r}"
    raise SetupError(
        f"{source}.setup() was called in {where}. A source provides data to a graph for sessions: call it "
        "under `with tf.Graph().as_default():`. In eager code and tf.function, iterate over a flow or a "
        "tf.data.Dataset directly."
    )


def _graphs_around() -> list[tf.Graph]:
    """Returns the current graph and the enclosing ones: the body of a loop is a separate graph."""
    graphs = [] if tf.executing_eagerly() else [tf.get_default_graph()]
    while graphs and getattr(graphs[-1], "outer_graph", None) is not None:
        graphs.append(graphs[-1].outer_graph)
    return graphs


def make_counter(name: str) -> tf.Variable:
    """Creates a counter of dequeues: an int64 scalar variable, 0 in each new session and never saved."""
    return tf.Variable(
        tf.zeros([], tf.int64),
        name=name,
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
    )


def check_at_least(least: int, name: str, value: int, meaning: str) -> None:
    """Checks a count argument.

    Args:
        least: the smallest value allowed.
        name: the argument's name, for the error.
        value: the argument.
        meaning: the meaning of the number, for the error.

    Raises:
        ValueError: the value is below `least`.
    """
    if value < least:
        raise ValueError(f"{name} is {meaning}, at least {least}; received {value}.")
