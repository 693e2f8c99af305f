"""The interface between data and a graph: what a trainer, or a loop of one's own, may ask of any input."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

from ._errors import SetupError
from .prefetch._input_status import InputStatus
from .specs._component_specs import check_specs

NOBODY_TAKES = contextlib.nullcontext()


class InputSource(abc.ABC):
    """Brings datapoints into a graph.

    One source serves one graph and lives through these calls, in this order:

        source.setup(specs)                        # in the graph: adds what all towers share
        tensors = source.get_input_tensors()       # once per tower: one call is one take
        with MonitoredTrainingSession(hooks=source.hooks()) as session:
            session.run(...)                       # each run takes the next datapoint
        source.state_dict()                        # between steps: where a later run shall go on

    Its hooks are TensorFlow's own, so any loop that honours a `SessionRunHook` can use it. Subclasses
    implement the methods with a leading underscore and leave the public ones alone.

    Attributes:
        infinite: whether it starts over at the end of a pass. Otherwise the run ends there, and an evaluation
            can use it.
        feed_free: whether its tensors need nothing to be fed with each run, so that several towers and
            `StagingInput` can use it.
    """

    infinite: bool = True
    feed_free: bool = True

    _specs: tuple[tf.TensorSpec, ...] | None = None
    _hook_list: tuple[tf.train.SessionRunHook, ...] | None = None

    def setup(self, specs: Sequence[tf.TensorSpec]) -> None:
        """Adds what the source needs to the current graph. To be called once, in the graph to be used.

        Args:
            specs: shape, dtype and name of each component; unknown dimensions are None.

        Raises:
            SetupError: on the second call.
            SpecError: if the specs are empty, not `tf.TensorSpec`, unnamed, or share a name.
        """
        if self._specs is not None:
            raise SetupError(
                f"{type(self).__name__}.setup() was called a second time. A source belongs to one graph: "
                "make a new source for a new graph."
            )
        narrowed = self._narrowed(check_specs(specs))
        self._setup(narrowed)
        self._specs = narrowed

    def get_input_tensors(self) -> list[tf.Tensor]:
        """Returns the tensors of one tower, in the order of the specs. Each call is a take of its own.

        Raises:
            SetupError: before `setup()`, or if this source cannot serve one more tower.
        """
        return list(self._get_input_tensors(self._after_setup("get_input_tensors")))

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hooks that the session must run with: the same objects on every call.

        Raises:
            SetupError: before `setup()`.
        """
        self._after_setup("hooks")
        if self._hook_list is None:
            self._hook_list = tuple(self._hooks())
        return list(self._hook_list)

    def reset_state(self) -> None:
        """Restarts at the first datapoint of a new pass: what an evaluation asks for before each round."""
        self._after_setup("reset_state")
        self._reset_state()

    def seed(self, seed: int) -> None:
        """Seeds the data, where it takes a seed as a DataFlow does; before the session starts."""

    def size(self) -> int | None:
        """Returns the number of datapoints in one pass, or None where nobody can know."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the datapoint after the last consumed one, whatever was prefetched.

        To be called while no step runs. Sources without a position return an empty dict. Everything in it can
        be written as JSON, if the flow's own position can.
        """
        return self._state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position. To be called before the session starts.

        Args:
            state: what `state_dict()` of a source of the same kind over the same flow returned.

        Raises:
            ValueError: if the state comes from another kind of source.
        """
        if state:
            raise ValueError(
                f"{type(self).__name__} has no position to restore, but received a state with "
                f"{sorted(state)}. Was the run that saved it using another input source?"
            )

    def status(self) -> InputStatus:
        """Returns where the input stands: how full its buffers are, what its threads do, as plain data.

        May be called from any thread, also while a step hangs; before and after the session too. Two of them
        tell what happened between: `source.status().since(earlier)`.
        """
        return InputStatus(type(self).__name__)

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        """Fills in what this source knows of shapes that are declared as unknown."""
        return specs

    @abc.abstractmethod
    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        """Adds what all towers share to the current graph."""

    @abc.abstractmethod
    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        """Adds one take to the current graph."""

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return ()

    def _reset_state(self) -> None:
        """Restarts; a source without a position has nothing to restart."""

    def _state(
        self, takes: int | None = None, paused: AbstractContextManager[Any] = NOBODY_TAKES
    ) -> dict[str, Any]:
        """The position after the first `takes` takes since the session began, or the last restart.

        None stands for all of them. A source that takes from another one ahead of the step asks for fewer,
        while a thread of it may be taking: not so in the context `paused`, which may have to be waited for.
        """
        return {}

    def _hold_back(self, takes: int) -> None:
        """Hears, before the session, that `_state` may be asked for up to so many takes fewer than made."""

    def _after_setup(self, method: str) -> tuple[tf.TensorSpec, ...]:
        if self._specs is None:
            raise SetupError(
                f"{type(self).__name__}.{method}() was called before setup(). "
                "Call setup(specs) once, inside the graph to be used."
            )
        return self._specs
