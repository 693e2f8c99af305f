"""Runs steps together with the fetches of callbacks, for all loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..callback._callback import StepFetch
from ..callback._every import LoopState
from ._callbacks import Callbacks
from ._step_counter import StepCounter
from ._step_plan import StepPlan, merge_options

__all__ = ["StepRequest", "StepRunner"]


@final
class StepRequest(NamedTuple):
    """The additions of callbacks to one session call.

    Attributes:
        plan: the fetches that are due.
        context: the context of the session call, for callbacks that choose their fetches at each step.
        args: the fetches and feeds of each of those callbacks.
    """

    plan: StepPlan
    context: tf.train.SessionRunContext
    args: Sequence[tf.train.SessionRunArgs]

    @property
    def fetches(self) -> list[Any]:
        """The fetches: a list of the plan's fetches, and a list of the per-step callbacks' fetches."""
        return [self.plan.fetches, [[] if arg.fetches is None else arg.fetches for arg in self.args]]

    @property
    def feeds(self) -> dict[Any, Any]:
        """The feeds in addition to those of the loop."""
        return {
            tensor: value for arg in self.args if arg.feed_dict for tensor, value in arg.feed_dict.items()
        }

    @property
    def options(self) -> tf.RunOptions | None:
        """The options of the session call; None in nearly all steps."""
        return merge_options([self.plan.options, *[arg.options for arg in self.args]])


@final
class StepRunner:
    """Runs steps in a session together with the fetches of callbacks; see `Callbacks` for a complete loop.

    `run` runs one step. A loop that does not call the session itself, such as a `SessionRunHook`, uses its
    two halves: `request` before the call and `deliver` after it. Each set of fetches has one callable,
    created at its first use.

    Args:
        sess: the session.
        callbacks: the callbacks, set up.
        loop: the counters; `global_step` advances with each step; the loop advances the others.
        counter: counts steps in the graph.

    Example:
        >>> from types import SimpleNamespace
        >>> from towerpack_callbacks import LoopState
        >>> graph, callbacks, loop = tf.Graph(), Callbacks([]), LoopState(steps_per_epoch=2)
        >>> with graph.as_default():
        ...     train_op, counter = tf.no_op(), StepCounter(graph)
        ...     callbacks.setup_graph(SimpleNamespace(graph=graph, loop=loop, is_chief=True))
        ...     start = tf.global_variables_initializer()
        >>> with tf.Session(graph=graph) as sess:
        ...     _ = sess.run(start)
        ...     steps = StepRunner(sess, callbacks, loop, counter)
        ...     _ = steps.run(train_op), steps.run(train_op)
        >>> loop.global_step
        2
    """

    def __init__(self, sess: tf.Session, callbacks: Callbacks, loop: LoopState, counter: StepCounter) -> None:
        self._sess = sess
        self._callbacks = callbacks
        self._loop = loop
        # A separate call: within the step, `global_step` might be read before or after the count.
        self._counter = counter
        self._count: Callable[[], Any] | None = None
        if counter.is_written_by_others:
            self._place = counter.placing(sess)
        else:
            self._count = sess.make_callable(counter.count)
        self._is_counted: dict[Any, tuple[Any, bool]] = {}
        self._callables: dict[Any, tuple[Any, Callable[[], Any]]] = {}

    def run(
        self,
        fetches: Any,
        feed_dict: dict[Any, Any] | None = None,
        due: tuple[StepFetch, ...] | None = None,
    ) -> Any:
        """Runs one step.

        Args:
            fetches: the tensors and ops to run, any structure that `Session.run` takes.
            feed_dict: values to feed.
            due: the return value of `Callbacks.due_fetches` for this step, if already known.

        Returns:
            The values of `fetches`.

        Raises:
            StopTraining: a session hook requested a stop.
        """
        plan = self._plan(due)
        if self._callbacks.per_step_callbacks:
            return self._run_with_choices(fetches, feed_dict or {}, plan)
        (value, values), metadata = self._call([fetches, plan.fetches], feed_dict, plan.options)
        self._count_step(fetches)
        plan.deliver(values, metadata)
        return value

    def request(
        self, context: tf.train.SessionRunContext, due: tuple[StepFetch, ...] | None = None
    ) -> StepRequest:
        """Collects the additions of callbacks to the next session call.

        Args:
            context: the context of the session call.
            due: as for `run`.
        """
        return StepRequest(self._plan(due), context, self._callbacks.before_run(context))

    def deliver(self, request: StepRequest, values: tf.train.SessionRunValues) -> None:
        """Counts the step, and passes fetched values to callbacks.

        Args:
            request: the return value of `request`.
            values: the values of `request.fetches`, with options and metadata.
        """
        (planned, chosen), options, metadata = values
        given = request.context.original_args
        self._count_step([] if given is None else given.fetches)
        request.plan.deliver(planned, metadata)
        self._callbacks.after_run(
            request.context, [tf.train.SessionRunValues(each, options, metadata) for each in chosen]
        )

    def _run_with_choices(self, fetches: Any, feeds: dict[Any, Any], plan: StepPlan) -> Any:
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs(fetches, feeds or None), self._sess)
        request = StepRequest(plan, context, self._callbacks.before_run(context))
        options = request.options
        wanted, feeds = [fetches, request.fetches], {**feeds, **request.feeds}
        (value, results), metadata = self._call(wanted, feeds, options)
        self.deliver(request, tf.train.SessionRunValues(results, options, metadata))
        if context.stop_requested:
            raise StopTraining("a session hook requested a stop")
        return value

    def _plan(self, due: tuple[StepFetch, ...] | None) -> StepPlan:
        if due is None:
            loop = self._loop
            due = self._callbacks.due_fetches(loop.global_step + 1, loop.epoch_num, loop.is_last_step)
        return self._callbacks.plan(due)

    def _count_step(self, fetches: Any) -> None:
        if self._count is not None:
            self._count()
        elif not self._counted_by(fetches):
            self._place(self._loop.global_step + 1)
        self._loop.global_step += 1

    def _counted_by(self, fetches: Any) -> bool:
        key = _identity(fetches)
        if key not in self._is_counted:
            self._is_counted[key] = fetches, self._counter.is_counted_by(fetches)
        return self._is_counted[key][1]

    def _call(
        self, wanted: list[Any], feeds: dict[Any, Any] | None, options: tf.RunOptions | None
    ) -> tuple[Any, tf.RunMetadata | None]:
        if options is not None:
            metadata = tf.RunMetadata()
            return self._sess.run(wanted, feeds, options, metadata), metadata
        if feeds:
            return self._sess.run(wanted, feeds), None
        key = _identity(wanted)
        if key not in self._callables:
            # Unlike `run`, a callable refuses empty fetches.
            runs_nothing = not tf.nest.flatten(wanted)
            call = partial(self._sess.run, wanted) if runs_nothing else self._sess.make_callable(wanted)
            # The structure is kept alive, so that no other object gets the identities in its key.
            self._callables[key] = wanted, call
        return self._callables[key][1](), None


def _identity(structure: Any) -> Any:
    """Returns a hashable key that is equal for the same tensors in the same structure."""
    if isinstance(structure, (list, tuple)):
        return type(structure), *map(_identity, structure)
    if isinstance(structure, dict):
        return type(structure), *((key, _identity(value)) for key, value in structure.items())
    return structure if isinstance(structure, str) else id(structure)
