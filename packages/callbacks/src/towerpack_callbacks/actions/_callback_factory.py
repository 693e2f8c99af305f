"""Makes a callback out of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ..callback import EVERY_EPOCH, Callback, Every

__all__ = ["CallbackFactory"]


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
