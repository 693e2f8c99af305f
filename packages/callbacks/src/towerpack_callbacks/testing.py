"""The conformance kit: the checks that all callbacks of this package pass, for custom callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

from .callback._callback import Callback
from .callback._every import EVERY_STEP
from .checkpoint import state_from_json, state_to_json
from .loop._callbacks import Callbacks
from .loop._plain_loop import PlainLoop
from .monitors import Monitor

__all__ = ["check_callback", "idle_seconds"]

_STEPS, _EPOCHS = 3, 2


@final
class _GraphWatcher(Callback):
    """Checks, as the last callback, that no op is added once training has begun."""

    def _before_train(self) -> None:
        self._version = self.graph.version

    def _trigger_epoch(self) -> None:
        if self.graph.version != self._version:
            raise AssertionError("The callback added ops to the graph after _setup_graph.")


@final
class _Names(Monitor):
    """Records the names of all statistics."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self.names.add(name)


class _Failure(Exception):
    """The exception of deliberate failures."""


@final
class _FailsIn(Callback):
    """Raises an exception in one of its methods."""

    def __init__(self, method: str) -> None:
        self._method = method
        setattr(self, method, self._fail)

    def _fail(self, *_: Any) -> None:
        raise _Failure(self._method)

    def overrides(self, method: str) -> bool:
        return method == self._method or super().overrides(method)


def check_callback(
    make_callback: Callable[[], Callback],
    log_dir: str | Path,
    before: Sequence[Callback] | Callable[[], Sequence[Callback]] = (),
) -> None:
    """Runs a callback in small trainings and checks that it follows the rules.

    The trainings fit a straight line for 2 epochs of 3 steps, with a scalar tensor "cost", a vector "costs"
    and a variable "weight"; an evaluation may run over any iterable. The rules are:

    - the callback sets up and runs, and no op is added after `_setup_graph`;
    - its state and its files, if any, survive a round trip through a checkpoint into a new callback;
    - after another set-up, for another training, it starts with the state of a new callback;
    - it declares all statistics that it puts;
    - after a failure of the training, at set-up or in the middle of a step or an epoch, its `_after_train`
      runs without an error.

    Args:
        make_callback: makes a new, equal callback at each call.
        log_dir: an empty directory for the callback's files.
        before: callbacks it depends on, such as the producers of its statistics; or a function that makes
            them.

    Raises:
        AssertionError: a rule is violated; the message names it.
    """
    directory = Path(log_dir)
    make_before = before if callable(before) else lambda: before
    used = _check_training(make_callback, make_before, directory / "whole")
    _check_state(make_callback, make_before, directory / "again", used)
    _check_new_start(used, make_callback(), make_before, directory / "anew")
    for method in ("_before_train", "_after_run", "_trigger_epoch"):
        _check_failure(make_callback, make_before, directory / method, method)


def _loop(callbacks: Sequence[Callback], log_dir: Path) -> PlainLoop:
    log_dir.mkdir(parents=True, exist_ok=True)
    return PlainLoop(callbacks, _STEPS, _EPOCHS, log_dir)


def _check_training(
    make_callback: Callable[[], Callback], make_before: Callable[[], Sequence[Callback]], log_dir: Path
) -> Callback:
    callback, names = make_callback(), _Names()
    loop = _loop([*make_before(), callback, _GraphWatcher(), names], log_dir)
    loop.train()
    if loop.loop.global_step != _STEPS * _EPOCHS:
        raise AssertionError(
            f"Training stopped after {loop.loop.global_step} of {_STEPS * _EPOCHS} steps with {callback}."
        )
    declared = {name for cb in loop.callbacks for name in [*cb.produces(), *cb.produces_in_run()]}
    undeclared = sorted(names.names - declared)
    if undeclared:
        raise AssertionError(
            f"{callback} puts {', '.join(undeclared)} without declaring it. Return the statistics of "
            "triggers from produces(), and those put while receiving fetches from produces_in_run()."
        )
    return callback


def _check_state(
    make_callback: Callable[[], Callback],
    make_before: Callable[[], Sequence[Callback]],
    log_dir: Path,
    used: Callback,
) -> None:
    callback, state = make_callback(), used.state_dict()
    try:
        copied = state_from_json(state_to_json(state))
    except TypeError as error:
        raise AssertionError(f"state_dict() of {callback} is not exact in a checkpoint: {error}") from error
    files = log_dir / "files"
    files.mkdir(parents=True)
    used.save_files(files)
    _loop([*make_before(), callback], log_dir)
    if copied:
        callback.load_state_dict(copied)
    _load_files(callback, files)
    if callback.state_dict() != copied:
        raise AssertionError(
            f"{callback} does not keep its state: saved {copied!r}, after loading {callback.state_dict()!r}."
        )


def _load_files(callback: Callback, directory: Path) -> None:
    if any(directory.iterdir()):
        try:
            callback.load_files(directory)
        except Exception as error:
            raise AssertionError(
                f"{callback} does not restore the files of save_files(directory): {error!r}. Implement "
                "load_files(directory), which is called right after load_state_dict."
            ) from error


def _check_new_start(
    used: Callback, new: Callback, make_before: Callable[[], Sequence[Callback]], log_dir: Path
) -> None:
    for callback in (used, new):
        _loop([*make_before(), callback], log_dir)
    if used.state_dict() != new.state_dict():
        raise AssertionError(
            f"{used} keeps state of an earlier training: after another set-up its state is "
            f"{used.state_dict()!r}; that of a new one is {new.state_dict()!r}. Make load_state_dict "
            "restore every state, including the first."
        )


def _check_failure(
    make_callback: Callable[[], Callback],
    make_before: Callable[[], Sequence[Callback]],
    log_dir: Path,
    method: str,
) -> None:
    callback = make_callback()
    # In front of the callback, so that the callback has not run yet.
    loop = _loop([*make_before(), _FailsIn(method), callback], log_dir)
    try:
        loop.train()
    except _Failure as error:
        if error.__context__ is not None:
            raise AssertionError(
                f"{callback} fails in _after_train when another callback has failed in {method}: "
                f"{error.__context__!r}. It must succeed in every state, even if the training never started."
            ) from error.__context__


def idle_seconds(
    callback: Callback, log_dir: str | Path, before: Sequence[Callback] = (), steps: int = 2000
) -> float:
    """Measures the cost of a callback in a step without any action of it, in seconds of processor time.

    The cost is the additional time of a step's bookkeeping with the callback, the minimum of several tries. A
    callback that acts at every step is never idle and raises an error.

    Args:
        callback: a new callback.
        log_dir: an empty directory for the callback's files.
        before: callbacks it depends on, which are also idle.
        steps: the number of steps to measure.

    Raises:
        ValueError: the callback acts at every step.
    """
    bare, loaded = _loop([], Path(log_dir) / "bare"), _loop([*before, callback], Path(log_dir) / "loaded")
    callbacks = loaded.callbacks
    if callbacks.per_step_callbacks or callbacks.every_step_fetches or callback.step_period() == EVERY_STEP:
        raise ValueError(f"{callback} acts at every step, so it is never idle.")
    tries = [(_time_steps(bare.callbacks, steps), _time_steps(callbacks, steps)) for _ in range(7)]
    return (min(with_it for _, with_it in tries) - min(without for without, _ in tries)) / steps


def _time_steps(callbacks: Callbacks, steps: int) -> float:
    callbacks.due_fetches(1, 1, False)
    callbacks.trigger_step(1, 1, False)
    start = time.thread_time()  # without the time that other processes take
    for _ in range(steps):
        callbacks.due_fetches(1, 1, False)
        callbacks.trigger_step(1, 1, False)
    return time.thread_time() - start
