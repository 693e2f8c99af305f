"""What the loop of one process does for the other processes that train with it; alone, nothing."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import LoopState
from towerpack_inputsource import InputSource

from ..restore import RunState, StartingPoint
from ..towers._cost_gradients import Pairs
from ._create_session import create_session

__all__ = ["GradientExchange", "ProcessStrategy", "SingleProcess", "seed_data"]

# Takes gradients and variables of this process; returns exchanged gradients and the same variables.
GradientExchange = Callable[[Pairs], Pairs]


class ProcessStrategy(abc.ABC):
    """How one process of a training keeps together with the others.

    A trainer calls its strategy at these places, and nowhere else; `SingleProcess` does nothing at any:

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
        announce_stop()                # where this process stops early, in good order
        translate_error(), announce_failure()      # where the loop failed
        run every _after_train
        leave()
    ```

    Attributes:
        is_chief: whether this process writes files, restores checkpoints and runs callbacks of its own.
        rank: the number of this process among several; None: it trains alone.
        gradient_exchange: what builders pass gradients through, between computing and applying them; None:
            nothing.
        single_steps: whether each step has to be a session call of its own.
    """

    is_chief: bool = True
    rank: int | None = None
    gradient_exchange: GradientExchange | None = None
    single_steps: bool = False

    @abc.abstractmethod
    def failing_together(self, coord: tf.train.Coordinator) -> AbstractContextManager[Any]:
        """Returns a context that tells the other processes of an error that leaves it.

        Args:
            coord: where threads of this process report their errors.
        """

    @abc.abstractmethod
    def agree_on_seed(self, choose: Callable[[], int]) -> int:
        """Returns the seed of the training, the same in all processes.

        Args:
            choose: chooses one; called in the chief.
        """

    @abc.abstractmethod
    def local_seed(self, seed: int) -> int:
        """Returns the seed of this process's random layers, and of data that are not divided.

        The chief's is the training's.
        """

    @abc.abstractmethod
    def add_ops(self, graph: tf.Graph) -> None:
        """Adds the ops that processes exchange values by, to a graph in which the model is built."""

    @abc.abstractmethod
    def check_agreement(self, loop: LoopState, source: InputSource | None) -> None:
        """Checks that all processes are about to do the same.

        Args:
            loop: the counters; `steps_per_epoch` and `max_epoch` are known.
            source: the input.
        """

    @abc.abstractmethod
    def create_session(self, graph: tf.Graph, options: tf.ConfigProto, start: StartingPoint) -> tf.Session:
        """Creates the session, where this process can exchange values with the others.

        Args:
            graph: what to run; it is final afterwards.
            options: the session's options.
            start: has the values that variables begin with.
        """

    @abc.abstractmethod
    def restore(self, start: StartingPoint, sess: tf.Session, run: RunState) -> None:
        """Restores where the run starts, in all processes alike."""

    @abc.abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint holds of the processes, as JSON values."""

    @abc.abstractmethod
    def guard_step(self, run_step: Callable[[], Any], loop: LoopState, sess: tf.Session) -> Callable[[], Any]:
        """Returns the function that runs one step, and ends early if another process is lost meanwhile."""

    @abc.abstractmethod
    def announce_stop(self, reason: str, loop: LoopState, sess: tf.Session) -> None:
        """Stops the other processes, which are about to run another step, where this process stops."""

    @abc.abstractmethod
    def translate_error(self, caught: BaseException, coord: tf.train.Coordinator) -> BaseException:
        """Returns what made a step fail, if it was another process; else the error as it is.

        A process that stopped in good order makes it a `StopTraining`.
        """

    @abc.abstractmethod
    def announce_failure(self, error: BaseException) -> None:
        """Tells the other processes that this process has failed, and with what."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Leaves the others once all have come to the end."""


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
    """Seeds the data of this process: shares by the training's seed, as they are cut from one order.

    Data that are known not to be divided among the processes get this process's own seed: by a common one,
    all processes would train on the same datapoints at each step.
    """
    source.seed(processes.local_seed(seed) if source.sharded is False else seed)
