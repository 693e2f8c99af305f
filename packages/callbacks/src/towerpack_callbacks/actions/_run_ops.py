"""Callbacks that run ops of the graph, functions, threads and processes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import NonFiniteError
from ..callback._callback import Callback, StepFetch
from ..callback._every import EVERY_EPOCH, Every
from ..callback._trainer_protocol import TrainerProtocol

__all__ = ["CallbackFactory", "CheckNumerics", "RunOp", "RunUpdateOps", "Seed", "StartProcOrThread"]


@final
class RunUpdateOps(Callback):
    """Runs the ops of a graph collection with every step, such as the updates of batch normalisation.

    Args:
        collection: name of the collection.

    Example:
        >>> callbacks = [RunUpdateOps(), RunUpdateOps("assignments_of_my_layer")]
    """

    chief_only = False

    def __init__(self, collection: str = tf.GraphKeys.UPDATE_OPS) -> None:
        self._collection = collection
        self._op: tf.Operation | None = None

    def _setup_graph(self) -> None:
        # An op created inside a tf.cond branch lands in the outer collection but cannot be run from outside.
        updates = [
            u for u in self.graph.get_collection(self._collection) if _operation(u).graph is self.graph
        ]
        self._op = tf.group(*updates, name="update_ops") if updates else None

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._op is None else [StepFetch(self._op)]


@final
class RunOp(Callback):
    """Runs an op: copies weights to a target network, resets a state between training and evaluation.

    Before the training and at triggers the op runs in a separate session call, which consumes a datapoint if
    the op depends on the input.

    Args:
        op: the op; or a function without arguments that makes it, called while the graph is set up.
        run_before: run it once before the first step.
        run_as_trigger: run it at each trigger.
        run_step: run it along with every step.

    Raises:
        TypeError: `op` is neither an op nor a function.
        ValueError: the op would never run.

    Example:
        ```python
        PeriodicTrigger(RunOp(make_copy_weights_op), every_k_steps=1000)
        ```
    """

    chief_only = False

    def __init__(
        self,
        op: tf.Operation | tf.Tensor | Callable[[], tf.Operation | tf.Tensor],
        run_before: bool = True,
        run_as_trigger: bool = True,
        run_step: bool = False,
    ) -> None:
        if not (callable(op) or isinstance(op, tf.Operation) or tf.is_tensor(op)):
            raise TypeError(f"RunOp takes an op or a function that makes one, received {op!r}.")
        if not (run_before or run_as_trigger or run_step):
            raise ValueError("RunOp would never run its op: set run_before, run_as_trigger or run_step.")
        self._given = op
        self._run_before, self._run_as_trigger, self._run_step = run_before, run_as_trigger, run_step

    def _setup_graph(self) -> None:
        made = self._given
        if callable(made) and not isinstance(made, tf.Operation) and not tf.is_tensor(made):
            made = made()
            if not isinstance(made, tf.Operation) and not tf.is_tensor(made):
                raise TypeError(f"RunOp: the function must return an op, it returned {made!r}.")
        self._op: tf.Operation = _operation(made)

    def _before_train(self) -> None:
        self._run = self.trainer.sess.make_callable(self._op)
        if self._run_before:
            self._run()

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._op)] if self._run_step else []

    def _trigger(self) -> None:
        if self._run_as_trigger:
            self._run()

    def epoch_period(self) -> Every | None:
        return EVERY_EPOCH if self._run_as_trigger else None


@final
class CheckNumerics(Callback):
    """Checks at each trigger that all variables of a collection are finite.

    Non-finite values are detected late, but steps between triggers cost nothing. `TerminateOnNaN` detects
    them at once and finds the op.

    Args:
        collection: name of the collection.

    Raises:
        NonFiniteError: (at a trigger) some values are not finite.

    Example:
        >>> callbacks = [CheckNumerics(), CheckNumerics(collection="local_variables")]
    """

    def __init__(self, collection: str = tf.GraphKeys.TRAINABLE_VARIABLES) -> None:
        self._collection = collection

    def _setup_graph(self) -> None:
        variables = [v for v in self.graph.get_collection(self._collection) if v.dtype.is_floating]
        self._names = [variable.op.name for variable in variables]
        flags = [tf.reduce_all(tf.math.is_finite(variable)) for variable in variables]
        self._finite: tf.Tensor | None = tf.stack(flags) if flags else None

    def _trigger(self) -> None:
        if self._finite is None:
            return
        finite: np.ndarray[Any, Any] = self.trainer.sess.run(self._finite)
        bad = [name for name, fine in zip(self._names, finite) if not fine]
        if bad:
            raise NonFiniteError(
                f"After step {self.global_step}, {len(bad)} of {len(finite)} variables have values that are "
                f"not finite: {', '.join(bad[:5])}{', ...' if len(bad) > 5 else ''}. "
                "TerminateOnNaN() reports the first step and op with such values."
            )


def _operation(update: tf.Tensor | tf.Operation) -> tf.Operation:
    return update if isinstance(update, tf.Operation) else update.op


@final
class CallbackFactory(Callback):
    """Makes a callback out of functions, for work too small for a class.

    Args:
        setup_graph: adds ops. Each function takes this callback, which gives access to `trainer`, `graph` and
            `global_step`.
        before_train: runs once before the first step.
        trigger: the periodic work; once per epoch, or at the periods of a `PeriodicTrigger`.
        after_train: runs once at the end, also after an error.

    Raises:
        TypeError: an argument is not callable.

    Example:
        ```python
        CallbackFactory(trigger=lambda self: print("finished steps:", self.global_step))
        ```
    """

    def __init__(
        self,
        setup_graph: Callable[[CallbackFactory], Any] | None = None,
        before_train: Callable[[CallbackFactory], Any] | None = None,
        trigger: Callable[[CallbackFactory], Any] | None = None,
        after_train: Callable[[CallbackFactory], Any] | None = None,
    ) -> None:
        self._functions = {
            "setup_graph": setup_graph,
            "before_train": before_train,
            "trigger": trigger,
            "after_train": after_train,
        }
        for name, function in self._functions.items():
            if function is not None and not callable(function):
                raise TypeError(
                    f"CallbackFactory({name}={function!r}): expected a function that takes the callback."
                )

    def _call(self, name: str) -> None:
        function = self._functions[name]
        if function is not None:
            function(self)

    def _setup_graph(self) -> None:
        self._call("setup_graph")

    def _before_train(self) -> None:
        self._call("before_train")

    def _trigger(self) -> None:
        self._call("trigger")

    def _after_train(self) -> None:
        self._call("after_train")

    def epoch_period(self) -> Every | None:
        return EVERY_EPOCH if self._functions["trigger"] is not None else None


@final
class StartProcOrThread(Callback):
    """Starts threads or processes before the training, and stops them after it.

    They start after the session is created. TensorFlow's default session and graph belong to the thread that
    entered them: pass `trainer.sess` to a thread that needs them.

    Args:
        startable: a `threading.Thread`, a `multiprocessing.Process`, any object with `start()`, or a list of
            these.
        stop_at_last: stop them after the training, in order, by `stop()` or else `terminate()`; then wait for
            them. Objects that have neither must end by themselves; the callback waits for them.

    Raises:
        TypeError: an object has no `start()`.

    Example:
        >>> import threading
        >>> server = threading.Thread(target=print, args=["started with the training"])
        >>> callbacks = [StartProcOrThread(server)]
    """

    chief_only = False

    def __init__(self, startable: Any, stop_at_last: bool = True) -> None:
        self._startables: Sequence[Any] = startable if isinstance(startable, (list, tuple)) else [startable]
        for one in self._startables:
            if not callable(getattr(one, "start", None)):
                raise TypeError(f"StartProcOrThread takes objects with a start() method, received {one!r}.")
        self._stop_at_last = stop_at_last
        self._started: list[Any] = []

    def _before_train(self) -> None:
        for one in self._startables:
            one.start()
            self._started.append(one)

    def _after_train(self) -> None:
        started, self._started = self._started, []
        if not self._stop_at_last:
            return
        for one in started:
            stop = getattr(one, "stop", None) or getattr(one, "terminate", None)
            if stop is not None:
                stop()
        for one in started:
            if hasattr(one, "join"):
                one.join()


@final
class Seed(Callback):
    """Seeds Python's `random`, `numpy.random` and TensorFlow's generators at set-up.

    Towerpack uses separate seeds (`TrainConfig(seed=...)` of the trainers); this callback is for user code
    that draws from the global generators. Put it first. In the graph it affects only ops that are created
    afterwards: those of later callbacks, not those of a model that is already built.

    Args:
        seed: the seed.

    Raises:
        ValueError: the seed is not a whole number from 0 to 2**32 - 1, which NumPy takes.

    Example:
        >>> callbacks = [Seed(7)]  # the first in the list
    """

    chief_only = False

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise ValueError(f"Seed({seed!r}): expected a whole number from 0 to 2**32 - 1.")
        self._seed = seed

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        super().setup_graph(trainer)
        random.seed(self._seed)
        np.random.seed(self._seed)
        with trainer.graph.as_default():
            tf.set_random_seed(self._seed)
        # Eager execution uses a separate generator. A new thread is eager even while this one builds a graph.
        eager = threading.Thread(target=tf.set_random_seed, args=(self._seed,))
        eager.start()
        eager.join()
