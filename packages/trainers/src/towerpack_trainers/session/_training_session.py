"""The session of a training: at most one, and only during the training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol, final

import tensorflow.compat.v1 as tf

from .._errors import TrainerStateError
from ..step import HookedSession

__all__ = ["SessionAccess", "TrainingSession"]


@final
class TrainingSession:
    """Holds the session of one training, and the session around it that counts runs as steps."""

    def __init__(self) -> None:
        self._sess: tf.Session | None = None
        self._hooked: HookedSession | None = None
        self._used = False

    def check_unused(self, graph: tf.Graph) -> None:
        """Checks that neither the trainer nor the graph has been trained.

        Raises:
            TrainerStateError: the trainer or the graph has been trained.
        """
        if self._used:
            raise TrainerStateError(
                "This trainer has already trained. Make a new one, with resume= to continue."
            )
        if graph.finalized:
            raise TrainerStateError(
                "The graph is final: it was trained before. Build a new graph for a new training."
            )

    def use(self) -> None:
        """Marks the beginning of the training; there is no second attempt."""
        self._used = True

    @contextlib.contextmanager
    def open(self, sess: tf.Session) -> Iterator[tf.Session]:
        """Enters a session, which is closed at the end."""
        try:
            with sess as self._sess:
                yield sess
        finally:
            self._sess = self._hooked = None

    @property
    def sess(self) -> tf.Session:
        """The session itself.

        Raises:
            TrainerStateError: there is no session at the moment.
        """
        if self._sess is None:
            raise TrainerStateError(
                "There is no session now: it exists from a callback's _before_train to its _after_train."
            )
        return self._sess

    @property
    def hooked(self) -> HookedSession:
        """The session that counts runs as steps.

        Raises:
            TrainerStateError: there is no session at the moment.
        """
        if self._hooked is None:
            raise TrainerStateError("There is no session now: hooked_sess is for run_step().")
        return self._hooked

    @hooked.setter
    def hooked(self, hooked: HookedSession) -> None:
        self._hooked = hooked

    def bind_step(self, trainer: HasSteps, train_op: tf.Operation | None) -> Callable[[], None]:
        """Returns a function equivalent to `trainer.run_step`.

        Args:
            trainer: the trainer of the step.
            train_op: the op that its class runs in a step, to skip the look-ups in it; None: anything else.
        """
        if train_op is None:
            return lambda: trainer.run_step()
        hooked_sess, own = self.hooked, vars(trainer)

        def run_step() -> None:
            if "run_step" in own:
                own["run_step"]()
            else:
                hooked_sess.run(train_op)

        return run_step


class HasSteps(Protocol):
    """The methods of a trainer that its session uses."""

    def run_step(self) -> None:
        """Runs one step of the training."""


class SessionAccess:
    """Adds the session of its training to a trainer, as attributes."""

    _session: TrainingSession

    @property
    def sess(self) -> tf.Session:
        """The session, during training. A run in it is not a step, but may take a datapoint."""
        return self._session.sess

    @property
    def hooked_sess(self) -> HookedSession:
        """The session that counts runs as steps, during training."""
        return self._session.hooked
