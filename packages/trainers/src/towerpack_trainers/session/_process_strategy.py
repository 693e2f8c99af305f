"""The session of one process, and its cooperation with the other processes of the training, if any."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import LoopState
from towerpack_callbacks.checkpoint import assign_variables, complete_copies, initial_feeds
from towerpack_inputsource import InputSource

from ..restore._run_state import RunState, StartingPoint
from ..towers._devices import check_session_has_towers
from ..towers._objective import Pairs

__all__ = ["GradientExchange", "ProcessStrategy", "SingleProcess", "create_session", "seed_data"]

# Takes gradients and variables of this process; returns exchanged gradients and the same variables.
GradientExchange = Callable[[Pairs], Pairs]


def create_session(
    graph: tf.Graph,
    config: tf.ConfigProto,
    target: str = "",
    values: Mapping[str, np.ndarray] | None = None,
) -> tf.Session:
    """Creates a session with all variables and tables initialised, and makes the graph final.

    Args:
        graph: the graph to run.
        config: the options of the session.
        target: the server that runs it; "" for none.
        values: values that replace the variables' own initial values, which are then not computed; arrays by
            name.

    Raises:
        ConfigError: the session lacks the device of a tower.
    """
    with graph.as_default():
        feeds, shared = initial_feeds(graph, values or {})
        initializers = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
    graph.finalize()
    sess = tf.Session(target, graph=graph, config=config)
    try:
        check_session_has_towers(sess)
        sess.run(initializers, feeds)
        assign_variables(sess, shared)
        complete_copies(sess)
    except BaseException:
        sess.close()
        raise
    return sess


class ProcessStrategy(abc.ABC):
    """Coordinates one process of a training with the others.

    A trainer calls its strategy at the following places, and nowhere else; `SingleProcess` does nothing
    there:

    ```
    with failing_together():
        agree_on_seed()
        build the model                # with local_seed(seed) and gradient_exchange
    with failing_together():
        add_ops()                      # the model is built, callbacks have added nothing
        set the callbacks up
        check_agreement()
        create_session()
        restore()
        for each step: the function that guard_step() returned
        announce_stop()                # if this process stops early, without an error
        translate_error(), announce_failure()      # if the loop failed
        run every _after_train
        leave()
    ```

    Attributes:
        is_chief: whether this process writes files, restores checkpoints and runs `chief_only` callbacks.
        rank: the number of this process among several; None for a single process.
        gradient_exchange: a function that builders apply to gradients between computing and applying them;
            None: none.
        single_steps: whether each step must be a separate session call.
    """

    is_chief: bool = True
    rank: int | None = None
    gradient_exchange: GradientExchange | None = None
    single_steps: bool = False

    @abc.abstractmethod
    def failing_together(self, coord: tf.train.Coordinator) -> AbstractContextManager[Any]:
        """Returns a context that reports an error that leaves it to the other processes.

        Args:
            coord: the coordinator to which threads of this process report their errors.
        """

    @abc.abstractmethod
    def agree_on_seed(self, choose: Callable[[], int]) -> int:
        """Returns the seed of the training, the same in all processes.

        Args:
            choose: chooses a seed; called in the chief.
        """

    @abc.abstractmethod
    def local_seed(self, seed: int) -> int:
        """Returns the seed of this process's random layers, and of data that are not divided.

        The seed of the chief is that of the training.
        """

    @abc.abstractmethod
    def add_ops(self, graph: tf.Graph) -> None:
        """Adds the ops for the exchange of values between processes, to a graph with the finished model."""

    @abc.abstractmethod
    def check_agreement(self, loop: LoopState, source: InputSource | None) -> None:
        """Checks that all processes are about to run the same training.

        Args:
            loop: the counters; `steps_per_epoch` and `max_epoch` are known.
            source: the input.
        """

    @abc.abstractmethod
    def create_session(self, graph: tf.Graph, options: tf.ConfigProto, start: StartingPoint) -> tf.Session:
        """Creates the session in which this process can exchange values with the others.

        Args:
            graph: the graph to run; it is final afterwards.
            options: the session's options.
            start: the starting point, with the initial values of variables.
        """

    @abc.abstractmethod
    def restore(self, start: StartingPoint, sess: tf.Session, run: RunState) -> None:
        """Restores the starting point of the run, identically in all processes."""

    @abc.abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the processes for a checkpoint, as JSON values."""

    @abc.abstractmethod
    def guard_step(self, run_step: Callable[[], Any], loop: LoopState, sess: tf.Session) -> Callable[[], Any]:
        """Returns the function that runs one step; it ends early if another process is lost."""

    @abc.abstractmethod
    def announce_stop(self, reason: str, loop: LoopState, sess: tf.Session) -> None:
        """Stops the other processes, which are about to run another step, when this process stops."""

    @abc.abstractmethod
    def translate_error(self, caught: BaseException, coord: tf.train.Coordinator) -> BaseException:
        """Returns the cause of a failed step, if it was another process; otherwise the error unchanged.

        If a process stopped without an error, the result is a `StopTraining`.
        """

    @abc.abstractmethod
    def announce_failure(self, error: BaseException) -> None:
        """Reports the failure of this process, with its error, to the other processes."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Leaves the group after all processes have reached the end."""


@final
class SingleProcess(ProcessStrategy):
    """The strategy of a process that trains alone."""

    def failing_together(self, coord: tf.train.Coordinator) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def agree_on_seed(self, choose: Callable[[], int]) -> int:
        return choose()

    def local_seed(self, seed: int) -> int:
        return seed

    def add_ops(self, graph: tf.Graph) -> None:
        pass

    def check_agreement(self, loop: LoopState, source: InputSource | None) -> None:
        pass

    def create_session(self, graph: tf.Graph, options: tf.ConfigProto, start: StartingPoint) -> tf.Session:
        return create_session(graph, options, values=start.initial_values(graph))

    def restore(self, start: StartingPoint, sess: tf.Session, run: RunState) -> None:
        start.restore(sess, run, lambda state: run.refit(state, processes=1))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def guard_step(self, run_step: Callable[[], Any], loop: LoopState, sess: tf.Session) -> Callable[[], Any]:
        return run_step

    def announce_stop(self, reason: str, loop: LoopState, sess: tf.Session) -> None:
        pass

    def translate_error(self, caught: BaseException, coord: tf.train.Coordinator) -> BaseException:
        return caught

    def announce_failure(self, error: BaseException) -> None:
        pass

    def leave(self) -> None:
        pass


def seed_data(source: InputSource, seed: int, processes: ProcessStrategy) -> None:
    """Seeds the data of this process: shards with the training's seed, since they are cut from one order.

    Data that are known not to be divided among the processes get this process's own seed: with a common seed,
    all processes would train on the same datapoints at each step.
    """
    source.seed(processes.local_seed(seed) if source.sharded is False else seed)
