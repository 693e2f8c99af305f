"""The callbacks of a trainer that are added to those of its configuration, and their files."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from towerpack_callbacks import Callback, Callbacks

from .._errors import TrainerStateError

__all__ = ["CallbackRegistration"]


class CallbackRegistration:
    """Registers further callbacks of a trainer, until the callbacks are set up.

    Attributes:
        callbacks: the callbacks of the run.
    """

    callbacks: Callbacks
    _fixed = False

    @functools.cached_property
    def _registered(self) -> list[Callback]:
        return []  # here, since a subclass of a trainer may register before its base's `__init__`

    def register_callback(self, callback: Callback) -> None:
        """Adds a callback that runs after the trainer's own ones and before the user's.

        In a process that is not the chief, a `chief_only` callback is dropped, like the user's.

        Args:
            callback: the callback; several callbacks run in the order of their registration.

        Raises:
            TrainerStateError: the callbacks are already set up.
            TypeError: the object is not a callback.
        """
        if self._fixed:
            raise TrainerStateError(
                f"{type(self).__name__}.register_callback({callback}) was called after the callbacks were "
                "set up by explain() or train(). Register it earlier, or use TrainConfig(callbacks=...)."
            )
        self._registered.extend(Callbacks([callback]))

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files into folders of a checkpoint, right after `state_dict()`."""
        self.callbacks.save_files(directory)

    def _with_registered(self, own: Iterable[Callback]) -> list[Callback]:
        """Returns the trainer's own callbacks and the registered ones, and ends the registration."""
        self._fixed = True
        return [*own, *self._registered]
