"""Runs a step together with everything callbacks want of it, through cached callables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StepCounter, StepFetch, StopTraining

from ._default_step import PlainStep

__all__ = ["HookedSession"]


class HookedSession:
    """A session whose every run is one step of the training.

    Each run fetches, besides what is asked for, what callbacks want at this step; counts the step; and hands
    out what was fetched. For each set of fetches that occurs there is one callable, made when it first does.

    Args:
        sess: the session underneath.
        callbacks: the callbacks of the run, set up.
        loop: the counters.
        counter: counts steps in the graph.
        plain: the plain step.
    """

    def __init__(
        self, sess: tf.Session, callbacks: Callbacks, loop: LoopState, counter: StepCounter, plain: PlainStep
    ) -> None:
        self._sess = sess
        self._callbacks = callbacks
        self._loop = loop
        self._counter = counter
        self._train_op = plain.train_op
        # The plain step's callable takes no options.
        every_step = callbacks.every_step_fetches
        self._plain_due = every_step if callbacks.run_options(every_step) is None else None
        self._plain_run = plain.compile(sess)
        self._run_ahead = plain.compile_ahead(sess)
        self._times = plain.times
        self._plain_receivers = plain.receivers
        self._dynamic = bool(callbacks.dynamic)
        self._count = sess.make_callable(counter.count)
        self._callables: dict[Any, tuple[Any, Callable[[], Any]]] = {}

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> Any:
        """Runs one step; with `steps_per_run`, so many of them, of which the last is the one callbacks see.

        Args:
            fetches: what to run and fetch, any structure `Session.run` takes.
            feed_dict: values to feed.

        Returns:
            The values of `fetches`; None for the trainer's own `train_op`.

        Raises:
            StopTraining: a session hook asked to stop.
        """
        loop = self._loop
        due = self._callbacks.due_fetches(loop.global_step + self._times, loop.epoch_num, loop.is_last_step)
        if fetches is self._train_op and due is self._plain_due and not self._dynamic and feed_dict is None:
            values = self._plain_run()
            loop.global_step += self._times
            for receive, value in zip(self._plain_receivers, values):
                receive(value)
            return None
        return self._run_with_hooks(fetches, due, feed_dict or {})

    def _run_with_hooks(self, fetches: Any, due: tuple[StepFetch, ...], feeds: dict[Any, Any]) -> Any:
        # What is wanted of this step alone does not fit into the loop: the steps before it run by themselves.
        if self._run_ahead is not None:
            self._run_ahead()
            self._loop.global_step += self._times - 1
        wanted = [fetches, [fetch.fetches for fetch in due]]
        if not self._dynamic:
            (value, due_values), metadata = self._call(wanted, feeds, self._callbacks.run_options(due))
            self._advance(due, due_values, metadata)
            return value
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs(fetches, feeds or None), self._sess)
        args = self._callbacks.before_run(context)
        wanted.append([[] if arg.fetches is None else arg.fetches for arg in args])
        for arg in args:
            feeds = {**feeds, **(arg.feed_dict or {})}
        options = self._callbacks.run_options(due, args)
        (value, due_values, arg_values), metadata = self._call(wanted, feeds, options)
        self._advance(due, due_values, metadata)
        self._callbacks.after_run(
            context, [tf.train.SessionRunValues(v, arg.options, metadata) for v, arg in zip(arg_values, args)]
        )
        if context.stop_requested:
            raise StopTraining("a session hook asked to stop")
        return value

    def _call(
        self, wanted: list[Any], feeds: dict[Any, Any], options: tf.RunOptions | None
    ) -> tuple[Any, tf.RunMetadata | None]:
        if options is not None:
            metadata = tf.RunMetadata()
            return self._sess.run(wanted, feeds, options, metadata), metadata
        if feeds:
            return self._sess.run(wanted, feeds), None
        key = _identity(wanted)
        if key not in self._callables:
            # The structure is kept, so that the identities in its key stay its own.
            self._callables[key] = wanted, self._sess.make_callable(wanted)
        return self._callables[key][1](), None

    def _advance(
        self, due: tuple[StepFetch, ...], values: list[Any], metadata: tf.RunMetadata | None
    ) -> None:
        if not self._counter.counted_by_graph:
            # A call of its own: within the run, who reads global_step would see it before or after by chance.
            self._count()
        self._loop.global_step += 1
        self._callbacks.receive(due, values, metadata)


def _identity(structure: Any) -> Any:
    """Something hashable that is equal for the same tensors in the same structure."""
    if isinstance(structure, (list, tuple)):
        return type(structure), *map(_identity, structure)
    if isinstance(structure, dict):
        return type(structure), *((key, _identity(value)) for key, value in structure.items())
    return structure if isinstance(structure, str) else id(structure)
