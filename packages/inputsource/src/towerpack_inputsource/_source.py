"""The interface between data and a graph: the calls that a trainer, or a loop of your own, makes."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

from ._errors import NotRunningError, SetupError
from .prefetch import InputStatus, OneSession, RefittedState
from .specs import check_specs

__all__ = ["NO_PAUSE", "InputSource", "check_at_least", "make_counter"]

NO_PAUSE = contextlib.nullcontext()


class InputSource(abc.ABC):
    """Brings datapoints into a graph.

    One source serves one graph, in one live session at a time, and lives through these calls, in this order::

        source.setup(specs)                        # in the graph: adds the ops that all towers share
        tensors = source.get_input_tensors()       # once per tower: one call is one take
        with MonitoredTrainingSession(hooks=source.hooks()) as session:
            session.run(...)                       # each run takes the next datapoint
        source.state_dict()                        # between steps: the position for a later run

    Its hooks are TensorFlow's own, so any loop that runs a `SessionRunHook` can use it. Subclasses
    implement the methods with a leading underscore and leave the public ones alone.

    Attributes:
        infinite: whether the source starts over at the end of a pass. Otherwise the run ends there, and an
            evaluation can use the source.
        feed_free: whether its tensors need no feed in any run, so that several towers and `StagingInput` can
            use the source.
    """

    infinite: bool = True
    feed_free: bool = True

    _specs: tuple[tf.TensorSpec, ...] | None = None
    _hook_list: tuple[tf.train.SessionRunHook, ...] | None = None
    _home: tf.Graph | None = None

    def setup(self, specs: Sequence[tf.TensorSpec]) -> None:
        """Adds the ops that all towers share to the current graph. To be called once, in that graph.

        Args:
            specs: shape, dtype and name of each component; unknown dimensions are None.

        Raises:
            SetupError: the source is set up already, or there is no graph: in eager mode, or in a
                `tf.function`.
            SpecError: the specs are empty, not `tf.TensorSpec`, unnamed, or share a name.
        """
        if self._specs is not None:
            raise SetupError(
                f"{type(self).__name__}.setup() was called a second time. A source belongs to one graph: "
                "make a new source for a new graph."
            )
        self._home = _current_graph(type(self).__name__)
        narrowed = self._narrowed(check_specs(specs))
        self._setup(narrowed)
        self._specs = narrowed

    def get_input_tensors(self) -> list[tf.Tensor]:
        """Returns the tensors of one tower, in the order of the specs. Each call is a take of its own.

        A session that runs without the source's `hooks()` has no data: of a queue, its first take waits for
        ever.

        Returns:
            One tensor for each spec, of its dtype, and of a shape that fits its shape.

        Raises:
            SetupError: the source is not set up, or in another graph, or cannot serve one more tower.
        """
        specs = self._after_setup("get_input_tensors")
        if self._home not in _graphs_around():
            raise SetupError(
                f"{type(self).__name__}.get_input_tensors() was called in another graph than setup(). A "
                "source belongs to one graph: call both in the same one, or make a new source."
            )
        return list(self._get_input_tensors(specs))

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hooks that the session must run with: the same objects on every call.

        Raises:
            SetupError: the source is not set up.
        """
        self._after_setup("hooks")
        if self._hook_list is None:
            own = self._hooks()
            # A source without hooks has nothing that belongs to a session.
            first = [OneSession(type(self).__name__, self._flows_read)] if own else []
            self._hook_list = (*first, *own)
        return list(self._hook_list)

    def reset_state(self) -> None:
        """Restarts at the first datapoint of a new pass, in the live session.

        An evaluation calls it before each round.

        Raises:
            SetupError: the source is not set up.
            NotRunningError: there is no live session, and the source needs one.
        """
        self._after_setup("reset_state")
        self._reset_state()

    def seed(self, seed: int) -> None:
        """Seeds the data, if it takes a seed as a DataFlow does; to be called before the session starts."""

    @property
    def sharded(self) -> bool | None:
        """Whether the data are one process's share of an order, which all processes must seed alike.

        None: it is not known, since the source reads no flow that says so.
        """
        return None

    @property
    def endless(self) -> bool:
        """Whether no pass ends, as far as it is known, so that no evaluation can use the source."""
        return self.infinite

    def size(self) -> int | None:
        """Returns the number of datapoints in one pass, or None if it is not known."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the datapoint after the last consumed one, whatever was prefetched.

        To be called while no step runs. Sources without a position return an empty dict. The state can be
        written as JSON, if the flow's own position can.

        Raises:
            NotRunningError: the session was closed before its hooks ended.
        """
        return self._state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position. To be called before the session starts.

        Args:
            state: the `state_dict()` of a source of the same kind over the same flow.

        Raises:
            ValueError: the state comes from another kind of source.
        """
        if state:
            raise ValueError(
                f"{type(self).__name__} has no position to restore, but received a state with "
                f"{sorted(state)}. Was the run that saved it using another input source?"
            )

    def refit(self, state: Mapping[str, Any]) -> RefittedState | None:
        """Translates a state that another number of processes, or batches of another size, have left.

        Changes nothing; the translated state is for `load_state_dict()`.

        Args:
            state: the `state_dict()` of a source of the same kind, over the same data.

        Returns:
            None where the source knows nothing of the batches that its data come in.

        Raises:
            ValueError: the batches differ, and the rest of the pass cannot be divided into those of now.
        """
        return None

    def status(self) -> InputStatus:
        """Returns the fill of the source's buffers and the activity of its threads, as plain data.

        May be called from any thread, also while a step hangs; before and after the session too. The time
        between two of them: `source.status().since(earlier)`.
        """
        return InputStatus(type(self).__name__)

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        """Returns the specs, with unknown sizes filled in where the source has them."""
        return specs

    @abc.abstractmethod
    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        """Adds the ops that all towers share to the current graph."""

    @abc.abstractmethod
    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        """Adds one take to the current graph."""

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return ()

    def _flows_read(self) -> Sequence[Any]:
        """Returns the flows that this source reads itself, so that no other source reads them meanwhile."""
        return ()

    def _reset_state(self) -> None:
        """Restarts at the first datapoint of a new pass; by default, does nothing."""

    def _state(
        self, takes: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        """Returns the position after the first `takes` takes since the session began, or the last restart.

        Args:
            takes: number of takes; None for all of them. A source that takes from another one ahead of the
                step calls this with fewer than it has made.
            paused: a context in which no thread takes from this source; entering it may have to wait.
        """
        return {}

    def _interrupt(self) -> None:
        """Wakes a take that waits for data, if something can: the run is over. Called before the end."""

    def _abandon(self) -> None:
        """Ends without a position: a take is under way that nothing can interrupt. Called before the end."""

    def _hold_back(self, takes: int) -> None:
        """Keeps positions for a state before the newest takes. Called before the session is created.

        Args:
            takes: by how many takes the argument of `_state()` may be behind the takes that were made.
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
    """Returns the graph that is being built.

    Raises:
        SetupError: there is none, or one that lives for one function alone.
    """
    graph = tf.get_default_graph()
    if not tf.executing_eagerly() and not hasattr(graph, "outer_graph"):
        return graph
    where = "eager mode" if tf.executing_eagerly() else f"the function {graph.name!r}"
    raise SetupError(
        f"{source}.setup() was called in {where}. A source brings data into a graph for sessions: call it "
        "under `with tf.Graph().as_default():`. Eager code and tf.function iterate over a flow, or over a "
        "tf.data.Dataset, directly."
    )


def _graphs_around() -> list[tf.Graph]:
    """Returns the current graph and those around it: the body of a loop has a graph of its own."""
    graphs = [] if tf.executing_eagerly() else [tf.get_default_graph()]
    while graphs and getattr(graphs[-1], "outer_graph", None) is not None:
        graphs.append(graphs[-1].outer_graph)
    return graphs


def make_counter(name: str) -> tf.Variable:
    """Makes a counter of takes: an int64 scalar variable, 0 in each new session and never saved."""
    return tf.Variable(
        tf.zeros([], tf.int64),
        name=name,
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
    )


def check_at_least(least: int, name: str, value: int, meaning: str) -> None:
    """Checks an argument that counts something.

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
