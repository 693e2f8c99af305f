"""The base class of callbacks that wrap another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._callback import Callback, is_replaced
from ._callback_state import load_state_of, state_of
from ._every import Every
from ._step_fetch import StepFetch
from ._trainer_protocol import TrainerProtocol

__all__ = ["ProxyCallback"]


class ProxyCallback(Callback):
    """Forwards all calls to another callback; base class of wrappers that change one aspect.

    Args:
        callback: the callback to wrap.

    Raises:
        TypeError: `callback` is not a `Callback`.
    """

    def __init__(self, callback: Callback) -> None:
        if not isinstance(callback, Callback):
            raise TypeError(f"{type(self).__name__} wraps a Callback, received {callback!r}.")
        self.callback = callback
        self.chief_only = callback.chief_only

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        self._trainer = trainer
        self.callback.setup_graph(trainer)
        self._forget_earlier_run()

    def _before_train(self) -> None:
        self.callback._before_train()

    def _before_epoch(self) -> None:
        self.callback._before_epoch()

    def _before_run(self, context: Any) -> Any:
        return self.callback._before_run(context)

    def _after_run(self, context: Any, run_values: Any) -> None:
        self.callback._after_run(context, run_values)

    def _trigger_step(self) -> None:
        self.callback._trigger_step()

    def _after_epoch(self) -> None:
        self.callback._after_epoch()

    def _trigger_epoch(self) -> None:
        self.callback._trigger_epoch()

    def _trigger(self) -> None:
        self.callback._trigger()

    def _after_triggers(self) -> None:
        self.callback._after_triggers()

    def _after_train(self) -> None:
        self.callback._after_train()

    def step_fetches(self) -> Sequence[StepFetch]:
        return self.callback.step_fetches()

    def step_period(self) -> Every | None:
        return self.callback.step_period()

    def epoch_period(self) -> Every | None:
        return self.callback.epoch_period()

    def produces(self) -> Sequence[str]:
        return self.callback.produces()

    def produces_in_run(self) -> Sequence[str]:
        return self.callback.produces_in_run()

    def headlines(self) -> Sequence[str]:
        return self.callback.headlines()

    def consumes(self) -> Sequence[str]:
        return self.callback.consumes()

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.callback)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_state_of(self.callback, state)

    def save_files(self, directory: Path) -> None:
        self.callback.save_files(directory)

    def load_files(self, directory: Path) -> None:
        self.callback.load_files(directory)

    def overrides(self, method: str) -> bool:
        return is_replaced(self, ProxyCallback, method) or self.callback.overrides(method)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.callback})"
