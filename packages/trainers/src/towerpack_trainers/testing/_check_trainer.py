"""The checks for every trainer, in small trainings that each test one promise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger, StopTraining

from .._errors import TrainerStateError
from ..base._trainer import Trainer
from ..config import TrainConfig
from ..towers._model_desc import ModelDesc
from ._small_training import (
    EPOCHS,
    SEED,
    STEPS,
    ConformanceError,
    FailAt,
    Recorder,
    SmallFlow,
    SmallModel,
    TrainerUnderTest,
    Values,
    difference,
    expect,
    expect_calls,
    leaves_nothing,
)

__all__ = ["check_trainer"]

_SAVED_EVERY, _INTERRUPTED_AT = 4, 9
_ENDS_IN = ("_before_train", "_before_epoch", "_after_run", "_trigger_step", "_trigger_epoch")


def check_trainer(
    make_trainer: Callable[[TrainConfig], Trainer],
    log_dir: str | Path,
    *,
    make_model: Callable[[], ModelDesc] = SmallModel,
    trains: bool = True,
    repeatable: bool = True,
) -> None:
    """Checks in small trainings the behaviour that callbacks and users expect of any trainer.

    The trainings have 2 epochs of 6 steps, on 12 datapoints. The checks are:

    - epochs and steps are counted, and callbacks called, in the order shown in `Callback`, even if no
      callback observes the steps;
    - each datapoint of a pass is trained on once;
    - the same seed gives the same parameters, bit for bit, and another seed gives others;
    - a training that is resumed from a checkpoint has the same result as an uninterrupted one;
    - `StopTraining`, an error of a callback and an error of the data end a training in the same way: all
      `_after_train` have run, the original error is raised, and no thread remains;
    - `explain()` works before `train()`, and a second `train()` is refused.

    It does not need pytest.

    Args:
        make_trainer: makes a trainer with the given configuration; called many times.
        log_dir: an empty directory for the files of the trainings.
        make_model: makes the model, for a trainer that does not support `SmallModel`; its inputs are the
            datapoints of `SmallFlow`. The check that each datapoint is trained on once requires a
            `SmallModel`.
        trains: whether steps change parameters and take datapoints; False for `NoOpTrainer`.
        repeatable: whether two trainings with one seed are equal; False if the updates of devices race.

    Raises:
        ConformanceError: a check failed.

    Example:
        ```python
        check_trainer(lambda config: SyncMultiGPUTrainer(config, ["/cpu:0", "/cpu:1"]), tmp_path)
        ```
    """
    subject = TrainerUnderTest(make_trainer, Path(log_dir), make_model, trains, repeatable)
    undisturbed = _check_loop(subject)
    _check_datapoints(subject, undisturbed)
    _check_unobserved_steps(subject, undisturbed)
    _check_explain(subject)
    _check_second_train(subject)
    _check_ends(subject)
    _check_seed(subject, undisturbed)
    _check_resume(subject, undisturbed)


def _check_loop(subject: TrainerUnderTest) -> Values:
    order: list[tuple[str, str]] = []
    first, last = _NamedRecorder("the first callback", order), _NamedRecorder("the last callback", order)
    values = subject.train("loop", first, last)
    expect_calls(first.calls, "in a training from the start")
    expect_calls(last.calls, "in a training from the start")
    for (what, name), (what_else, other) in zip(order[::2], order[1::2]):
        expect(
            (what, name, other) == (what_else, first.name, last.name),
            f"callbacks must be called in order; received {what} of {name}, then {what_else} of {other}",
        )
    return values


def _check_datapoints(subject: TrainerUnderTest, values: Values) -> None:
    if not subject.trains or "visits" not in values:
        return
    visits = values["visits"]
    most, least = np.abs(visits).max(), np.abs(visits).min()
    expect(
        bool(most > 0) and np.allclose(visits, visits[0], rtol=1e-4),
        "each datapoint of a pass must be trained on once, all with equal weight; received examples with a "
        f"sum of gradients of {least:g} and others with {most:g}",
    )


def _check_unobserved_steps(subject: TrainerUnderTest, undisturbed: Values) -> None:
    counts = _EpochCounts()
    values = subject.train("unobserved", counts)
    expected = [STEPS * (epoch + 1) for epoch in range(EPOCHS)]
    what = "if no callback observes the steps"
    expect(
        counts.global_steps == expected,
        f"{what}, expected global_step {expected} at the ends of epochs, received {counts.global_steps}",
    )
    differs = difference(values, undisturbed)
    expect(
        not subject.repeatable or differs is None,
        f"{what}, the training must be the same as with an observing callback: {differs}",
    )


def _check_explain(subject: TrainerUnderTest) -> None:
    recorder = Recorder()
    trainer = subject.make("explain", [recorder])
    with leaves_nothing("explain()"):
        text = trainer.explain()
    expect("Recorder" in text, f"explain() must name all callbacks, received {text!r}")
    expect(trainer.explain() == text, "explain() must return the same text when it is called again")
    expect(recorder.calls == [], f"explain() must not start the training, received {recorder.calls}")
    try:
        session = trainer.sess
    except TrainerStateError:
        session = None
    expect(session is None, f"explain() must create no session, received {session!r}")
    trainer.train()
    expect_calls(recorder.calls, "in a training after explain()")


def _check_second_train(subject: TrainerUnderTest) -> None:
    trainer = subject.make("twice", [])
    trainer.train()
    try:
        trainer.train()
    except TrainerStateError:
        return
    raise ConformanceError("a second train() must raise a TrainerStateError, received no error")


def _check_ends(subject: TrainerUnderTest) -> None:
    for method in _ENDS_IN:
        for error in (_PlannedFailure(f"an error in {method}"), StopTraining(f"a stop in {method}")):
            name = f"{type(error).__name__.strip('_')}-in{method}"
            _check_end(subject, name, error, [FailAt(method, error)])
    interrupt = KeyboardInterrupt()
    _check_end(subject, "interrupt", interrupt, [FailAt("_trigger_step", interrupt)])
    if subject.trains:
        error = _PlannedFailure("an error in the data")
        _check_end(subject, "error-in-data", error, [], dataflow=SmallFlow(error))


def _check_end(
    subject: TrainerUnderTest, name: str, error: BaseException, failing: Sequence[Callback], **changes: Any
) -> None:
    first, last = Recorder(), Recorder()
    what = f"a training that is ended by {error!r}"
    received: BaseException | None = None
    with leaves_nothing(what):
        trainer = subject.make(name, [first, *failing, last], **changes)
        try:
            trainer.train()
        except BaseException as caught:
            received = caught
    if isinstance(error, StopTraining):
        expect(received is None, f"{what} must end without an error, received {received!r}")
    else:
        expect(received is error, f"{what} must raise the original error, received {received!r}")
    for recorder, which in ((first, "before"), (last, "behind")):
        ends = [call for call, *_ in recorder.calls].count("after_train")
        expect(
            ends == 1 and recorder.calls[-1][0] == "after_train",
            f"{what} must call _after_train of the callback {which} the failing one once, as its last "
            f"method; received {ends} such calls, and {recorder.calls[-1:]} as the last one of all",
        )


def _check_seed(subject: TrainerUnderTest, undisturbed: Values) -> None:
    if subject.repeatable:
        differs = difference(subject.train("again"), undisturbed)
        expect(differs is None, f"the same seed must give the same training: {differs}")
    if subject.trains:
        other = subject.train("seed", seed=SEED + 1)
        expect(
            difference(other, undisturbed) is not None,
            "another seed must give another training; received the same values of all variables",
        )


def _check_resume(subject: TrainerUnderTest, undisturbed: Values) -> None:
    def callbacks() -> tuple[Callback, _StepSum]:
        return PeriodicTrigger(ModelSaver(), every_k_steps=_SAVED_EVERY), _StepSum()

    failure = _PlannedFailure("an interruption")
    with contextlib.suppress(_PlannedFailure):
        subject.train("resumed", *callbacks(), FailAt("_trigger_step", failure, _INTERRUPTED_AT))
    recorder, (saver, total) = Recorder(), callbacks()
    values = subject.train("resumed", saver, total, recorder, resume="auto")
    saved = _INTERRUPTED_AT - _INTERRUPTED_AT % _SAVED_EVERY
    expect_calls(recorder.calls, f"in a training resumed at step {saved}", saved)
    everything = sum(range(STEPS * EPOCHS + 1))
    expect(
        total.total == everything,
        f"a resumed callback must continue from its state; expected a sum of {everything}, "
        f"received {total.total}",
    )
    differs = difference(values, undisturbed)
    expect(
        not subject.repeatable or differs is None,
        "a resumed training must have the same result as an uninterrupted one. Is there state outside of "
        f"variables, callbacks and the input? {differs}",
    )


class _PlannedFailure(Exception):
    """An error that the kit raises to make a training fail."""


@final
class _NamedRecorder(Recorder):
    """Records its calls in a list that several recorders share."""

    def __init__(self, name: str, order: list[tuple[str, str]]) -> None:
        super().__init__()
        self.name, self._order = name, order

    def note(self, what: str) -> None:
        super().note(what)
        self._order.append((what, self.name))


@final
class _EpochCounts(Callback):
    """Records `global_step` at the end of each epoch, without observing steps."""

    def __init__(self) -> None:
        self.global_steps: list[int] = []

    def _trigger_epoch(self) -> None:
        self.global_steps.append(self.global_step)


@final
class _StepSum(Callback):
    """Has a state that each step changes."""

    def __init__(self) -> None:
        self.total = 0

    def _trigger_step(self) -> None:
        self.total += self.global_step

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]
