"""Small trainings: expectations, a model and data that train in milliseconds, and callbacks that record."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MovingAverageSummary, RunUpdateOps
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_layers import BatchNorm, Dropout, FullyConnected

from ..base._trainer import Trainer
from ..config import TrainConfig
from ..towers._model_desc import ModelDesc

__all__ = [
    "EPOCHS",
    "SEED",
    "STEPS",
    "ConformanceError",
    "FailAt",
    "FinalVariables",
    "Recorder",
    "SmallFlow",
    "SmallModel",
    "TrainerUnderTest",
    "Values",
    "difference",
    "expect",
    "expect_calls",
    "leaves_nothing",
]


STEPS, EPOCHS = 6, 2

Call = tuple[str, int, int | None, int]
"""An entry of `Recorder.calls`; a `local_step` of None matches any: it is undefined outside of steps."""


class ConformanceError(AssertionError):
    """A trainer failed a check; the message describes the expected and the received behaviour."""


def expect(condition: bool, message: str) -> None:
    """Raises an error unless a condition holds.

    Raises:
        ConformanceError: the condition does not hold.
    """
    if not condition:
        raise ConformanceError(f"{message}.")


def expect_calls(calls: Sequence[Call], when: str, done: int = 0) -> None:
    """Checks the calls of callbacks and their counters against the loop shown in `Callback`.

    Args:
        calls: the calls of a `Recorder`.
        when: the description of the training, for the message.
        done: the number of finished steps at the beginning of the training.

    Raises:
        ConformanceError: a call is missing, superfluous, or has other counters; the message names the first
            one.
    """
    expected = _expected_calls(done)
    for number, wanted in enumerate(expected):
        received = calls[number] if number < len(calls) else None
        if received is not None and wanted[2] is None:
            received = (*received[:2], None, received[3])
        expect(
            received == wanted,
            f"{when}, expected call {number} of a callback to be {_describe(wanted)}, received "
            f"{'no call' if received is None else _describe(received)}",
        )
    expect(
        len(calls) == len(expected),
        f"{when}, expected {len(expected)} calls of a callback, received {len(calls)}",
    )


def _expected_calls(done: int) -> list[Call]:
    """Returns the calls of a whole training that begins after `done` steps, as shown in `Callback`."""
    epochs = range(done // STEPS + 1, EPOCHS + 1)
    calls: list[Call] = [("before_train", epochs[0] - 1, None, done)]
    for epoch in epochs:
        calls.append(("before_epoch", epoch, None, done))
        for local_step in range(done % STEPS, STEPS):
            done += 1
            calls.append(("trigger_step", epoch, local_step, done))
        calls += [("after_epoch", epoch, STEPS - 1, done), ("trigger_epoch", epoch, STEPS - 1, done)]
    return [*calls, ("after_train", EPOCHS, STEPS - 1, done)]


def _describe(call: Call) -> str:
    what, epoch, local_step, global_step = call
    local = "" if local_step is None else f", local_step {local_step}"
    return f"{what} in epoch {epoch}{local}, global_step {global_step}"


def difference(values: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> str | None:
    """Describes the first variable with any different bit; None if all are equal."""
    if values.keys() != expected.keys():
        return f"there are other variables: {sorted(values.keys() ^ expected.keys())}"
    for name, value in expected.items():
        if not np.array_equal(value, values[name]):
            away = np.abs(np.subtract(values[name], value, dtype=np.float64)).max()
            return f"variable {name!r} differs by up to {away:g}"
    return None


_DATAPOINTS, _BATCH = 12, 4


@final
class SmallModel(ModelDesc):
    """Fits the sum of three numbers, with dropout and a batch normalisation.

    The variable `visits` has one element for each example of `SmallFlow`. If a training has used some
    examples equally often, their elements are equal: the cost contains the mean of a batch's elements, and
    the optimizer is plain gradient descent.

    Example:
        >>> [spec.name for spec in SmallModel().inputs()]
        ['x', 'y', 'number']
    """

    def inputs(self) -> Sequence[tf.TensorSpec]:
        return [
            tf.TensorSpec([None, 3], tf.float32, "x"),
            tf.TensorSpec([None], tf.float32, "y"),
            tf.TensorSpec([None], tf.int32, "number"),
        ]

    def build_graph(self, x: tf.Tensor, y: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        hidden = FullyConnected("hidden", x, 8, activation=tf.nn.relu)
        hidden = Dropout("dropout", BatchNorm("bn", hidden), rate=0.25)
        fitted = FullyConnected("fitted", hidden, 1)[:, 0]
        visits = tf.get_variable("visits", [_DATAPOINTS * _BATCH], initializer=tf.zeros_initializer())
        error = tf.reduce_mean(tf.square(fitted - y), name="error")
        return tf.add(error, tf.reduce_mean(tf.gather(visits, number)), name="cost")

    def optimizer(self) -> tf.train.Optimizer:
        return tf.train.GradientDescentOptimizer(0.125)


@final
class SmallFlow:
    """Twelve batches of four examples for `SmallModel`, in a different order in each pass; it has a position.

    Args:
        error: raised instead of a datapoint.
        error_at: the index, in the first pass, of the datapoint that `error` replaces.

    Example:
        >>> len(SmallFlow()), [part.shape for part in next(iter(SmallFlow()))]
        (12, [(4, 3), (4,), (4,)])
    """

    def __init__(self, error: BaseException | None = None, error_at: int = 5) -> None:
        x = np.random.default_rng(0).normal(size=(_DATAPOINTS, _BATCH, 3)).astype(np.float32)
        numbers = np.arange(_DATAPOINTS * _BATCH, dtype=np.int32).reshape(_DATAPOINTS, _BATCH)
        self._datapoints = list(zip(x, x.sum(-1), numbers))
        self._error, self._error_at = error, error_at
        self._seed = 0
        self._pass_number, self._index = 0, 0
        self._pass_is_new = True

    def __len__(self) -> int:
        return len(self._datapoints)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        if not self._pass_is_new:
            self._pass_number, self._index = self._pass_number + 1, 0
        self._pass_is_new = False
        return self._read(np.random.default_rng([self._seed, self._pass_number]).permutation(len(self)))

    def _read(self, order: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        while self._index < len(self):
            if self._error is not None and self._index == self._error_at:
                raise self._error
            self._index += 1
            yield self._datapoints[order[self._index - 1]]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pass_is_new = True  # a copy of a flow continues from the position of the original

    def reset_state(self) -> None:
        """Does nothing: there is nothing to open."""

    def seed(self, seed: int) -> None:
        """Selects the orders of all passes."""
        self._seed = seed

    def state_dict(self) -> dict[str, int]:
        """Returns the position after the last datapoint read, and the seed."""
        return {"seed": self._seed, "pass": self._pass_number, "index": self._index}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Sets the start of the next pass."""
        self._seed, self._pass_number, self._index = state["seed"], state["pass"], state["index"]
        self._pass_is_new = True


class Recorder(Callback):
    """Records the calls of its methods with the loop's counters.

    Attributes:
        calls: tuples of the method's name without its underscore, `epoch_num`, `local_step` and
            `global_step`, in the order of the calls.

    Example:
        >>> from towerpack_trainers import SimpleTrainer, TrainConfig
        >>> recorder = Recorder()
        >>> config = TrainConfig(
        ...     model=SmallModel(), dataflow=SmallFlow(), callbacks=[recorder], max_epoch=1, log_dir=None
        ... )
        >>> SimpleTrainer(config).train()
        >>> recorder.calls[-1]
        ('after_train', 1, 11, 12)
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, int]] = []

    def note(self, what: str) -> None:
        """Appends an entry to `calls`; a subclass may record more."""
        loop = self.trainer.loop
        self.calls.append((what, loop.epoch_num, loop.local_step, loop.global_step))

    def _before_train(self) -> None:
        self.note("before_train")

    def _before_epoch(self) -> None:
        self.note("before_epoch")

    def _trigger_step(self) -> None:
        self.note("trigger_step")

    def _after_epoch(self) -> None:
        self.note("after_epoch")

    def _trigger_epoch(self) -> None:
        self.note("trigger_epoch")

    def _after_train(self) -> None:
        self.note("after_train")


@final
class FinalVariables(Callback):
    """Keeps the values of all global variables at the end of the training.

    Attributes:
        values: arrays by variable name; empty before the end.

    Example:
        >>> from towerpack_trainers import SimpleTrainer, TrainConfig
        >>> final = FinalVariables()
        >>> config = TrainConfig(
        ...     model=SmallModel(), dataflow=SmallFlow(), callbacks=[final], max_epoch=1, log_dir=None
        ... )
        >>> SimpleTrainer(config).train()
        >>> int(final.values["global_step"])
        12
    """

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def _after_train(self) -> None:
        self.values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))


@final
class FailAt(Callback):
    """Raises an error in one of its methods.

    Args:
        method: the method's name, such as "_trigger_step".
        error: the error.
        step: the first global step at which it is raised.

    Example:
        >>> callbacks = [FailAt("_trigger_step", OSError("the disk is full"), step=3)]
    """

    def __init__(self, method: str, error: BaseException, step: int = 0) -> None:
        def fail(*_: Any) -> None:
            if self.global_step >= step:
                raise error

        setattr(self, method, fail)
        self.method = method

    def overrides(self, method: str) -> bool:
        """Returns whether the loop has to call a method: the failing one is set on the instance only."""
        return method == self.method or super().overrides(method)


SEED = 20_000

Values = dict[str, np.ndarray]


@final
@attrs.frozen
class TrainerUnderTest:
    """The trainer to check, and the configuration of its trainings."""

    make_trainer: Callable[[TrainConfig], Trainer]
    log_dir: Path
    make_model: Callable[[], ModelDesc]
    trains: bool
    repeatable: bool

    def make(self, name: str, callbacks: Sequence[Callback], **changes: Any) -> Trainer:
        """Makes a trainer with files in a directory of the given name."""
        values: dict[str, Any] = {
            "model": self.make_model(),
            "dataflow": SmallFlow(),
            "callbacks": callbacks,
            "extra_callbacks": [MovingAverageSummary(), RunUpdateOps()],
            "monitors": [],
            "steps_per_epoch": STEPS,
            "max_epoch": EPOCHS,
            "log_dir": self.log_dir / name,
            "seed": SEED,
        }
        return self.make_trainer(TrainConfig(**{**values, **changes}))

    def train(self, name: str, *callbacks: Callback, **changes: Any) -> Values:
        """Runs a training; returns the final values of the variables."""
        kept = FinalVariables()
        with leaves_nothing(f"the training {name!r}"):
            self.make(name, [*callbacks, kept], **changes).train()
        return kept.values


@contextlib.contextmanager
def leaves_nothing(what: str) -> Iterator[None]:
    """Checks that a block leaves no thread behind, and does not change TensorFlow's execution mode."""
    threads, eager = set(threading.enumerate()), tf.executing_eagerly()
    yield
    left = sorted(thread.name for thread in set(threading.enumerate()) - threads)
    expect(not left, f"{what} must leave no thread behind, received {', '.join(left)}")
    expect(tf.executing_eagerly() == eager, f"{what} must not change eager execution")
