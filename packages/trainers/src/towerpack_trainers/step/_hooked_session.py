"""Runs a step together with all fetches of callbacks."""

from __future__ import annotations

import contextlib
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StepCounter, StepRunner

from ..reports.trace import timed_session
from ._fused_steps import TrainingSteps

__all__ = ["HookedSession"]


@final
class HookedSession:
    """A session that makes every run one step of the training.

    Each run adds the fetches of callbacks at this step; counts the step; and passes the values to callbacks.
    The default step has a separate call; all others use a `StepRunner`.

    Args:
        sess: the underlying session.
        callbacks: the callbacks of the run, set up.
        loop: the counters.
        counter: counts steps in the graph.
        steps: the ops of the steps.

    Example:
        >>> from towerpack_trainers import Trainer
        >>> class TwoUpdates(Trainer):  # `hooked_sess` is a HookedSession
        ...     def run_step(self):
        ...         self.hooked_sess.run([self.first_op, self.second_op])
    """

    def __init__(
        self,
        sess: tf.Session,
        callbacks: Callbacks,
        loop: LoopState,
        counter: StepCounter,
        steps: TrainingSteps,
    ) -> None:
        sess, self._loop = timed_session(sess, loop), loop
        self._runner = StepRunner(sess, callbacks, loop, counter)
        self._sess, self._counter = sess, counter
        self._due_fetches = callbacks.due_fetches
        self._unobserved_steps = callbacks.unobserved_steps
        every_step = callbacks.every_step_fetches
        # The default step's call takes no options, and no fetches that a callback chooses at each step.
        has_default = callbacks.plan(every_step).options is None and not callbacks.per_step_callbacks
        self._default_due = every_step if has_default else None
        self._train_op = steps.default.train_op
        self._receivers = steps.default.receivers
        self._per_call = steps.per_call
        counter.placing(sess)(loop.global_step)
        calls = steps.compile(sess)
        self._singles_until = 0  # up to this step, one call for each step
        self._run_default, self._run_prologue, self._run_many = calls.run, calls.run_prologue, calls.run_many

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> Any:
        """Runs one step; with `steps_per_run`, that many steps, of which callbacks see the last.

        Args:
            fetches: the fetches, in any structure that `Session.run` accepts.
            feed_dict: values to feed.

        Returns:
            The values of `fetches`; None for the trainer's own `train_op`.

        Raises:
            StopTraining: a session hook requested a stop.
        """
        if self._per_call == 1:
            return self._run(fetches, feed_dict)
        begun = self._loop.global_step
        try:
            return self._run(fetches, feed_dict)
        except tf.errors.OpError:
            self._count_again()
            # The step that failed, which may not be the last one of the call.
            self._loop.local_step += self._loop.global_step - begun - (self._per_call - 1)
            raise

    def _run(self, fetches: Any, feed_dict: dict[Any, Any] | None) -> Any:
        loop = self._loop
        due = self._due_fetches(loop.global_step + self._per_call, loop.epoch_num, loop.is_last_step)
        if fetches is self._train_op and due is self._default_due and feed_dict is None:
            try:
                values = self._run_default()
                loop.global_step += self._per_call
            except tf.errors.OpError:
                raise  # the step is not done
            except BaseException:
                self._count_again()
                raise
            for receive, value in zip(self._receivers, values):
                receive(value)
            return None
        # Fetches of this step only cannot be in the loop: the steps before it run separately.
        if self._run_prologue is not None and (fetches is self._train_op or self._per_call > 1):
            self._run_prologue()
            loop.global_step += self._per_call - 1
        return self._runner.run(fetches, feed_dict, due)

    def run_unobserved(self) -> int:
        """Runs the next steps in one session call, if no callback observes them and that is faster.

        The trainer's loop calls it before each step; it advances `local_step` and `global_step`. The call
        ends after a short time, so that signals and periods in seconds do not wait.

        Returns:
            The number of steps; 0: run the next step separately.
        """
        loop = self._loop
        before = loop.global_step
        if self._run_many is None or before < self._singles_until:
            return 0
        before_last = loop.steps_per_epoch - 2 - loop.local_step
        try:
            done = self._run_many(min(self._unobserved_steps(before), before_last))
            if done <= 0:
                self._singles_until = before - done
                return 0
            loop.global_step += done
            loop.local_step += done
        except BaseException as error:
            # The steps before the failed one are done; if a signal arrived after the call, all are.
            self._count_again()
            loop.local_step += loop.global_step - before + isinstance(error, tf.errors.OpError)
            raise
        return done

    def _count_again(self) -> None:
        """Updates the number of finished steps, after a call that may have made some."""
        with contextlib.suppress(tf.errors.OpError, RuntimeError):  # the session may be broken as well
            self._loop.global_step = self._counter.value_after_failure(self._sess)
