"""The session of a training: there is one at most, and only while the training runs."""

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
    """Holds the session of one training, and the one around it whose runs are steps."""

    def __init__(self) -> None:
        self._sess: tf.Session | None = None
        self._hooked: HookedSession | None = None
        self._used = False

    def check_unused(self, graph: tf.Graph) -> None:
        """Checks that neither the trainer nor the graph has been trained.

        Raises:
            TrainerStateError: one has.
        """
        if self._used:
            raise TrainerStateError(
                "This trainer has trained already. Make a new one, with resume= to go on."
            )
        if graph.finalized:
            raise TrainerStateError(
                "The graph is final: it was trained before. Build it anew for a new training."
            )

    def use(self) -> None:
        """Notes that the training begins, for which there is no second attempt."""
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
            TrainerStateError: there is none now.
        """
        if self._sess is None:
            raise TrainerStateError(
                "There is no session now: it exists from a callback's _before_train to its _after_train."
            )
        return self._sess

    @property
    def hooked(self) -> HookedSession:
        """The session whose runs are steps.

        Raises:
            TrainerStateError: there is none now.
        """
        if self._hooked is None:
            raise TrainerStateError("There is no session now: hooked_sess is for run_step().")
        return self._hooked

    @hooked.setter
    def hooked(self, hooked: HookedSession) -> None:
        self._hooked = hooked

    def bind_step(self, trainer: HasSteps, train_op: tf.Operation | None) -> Callable[[], None]:
        """Returns a function that does what `trainer.run_step` does.

        Args:
            trainer: whose step it is.
            train_op: what its class runs in a step, to do without the look-ups in it; None: something else.
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
    """A trainer, as far as its session knows it."""

    def run_step(self) -> None:
        """Runs one step of the training."""


class SessionAccess:
    """Gives a trainer the session of its training as attributes."""

    _session: TrainingSession

    @property
    def sess(self) -> tf.Session:
        """The session, while training. A run in it is no step, yet takes a datapoint if it needs input."""
        return self._session.sess

    @property
    def hooked_sess(self) -> HookedSession:
        """The session whose runs are steps, while training."""
        return self._session.hooked
