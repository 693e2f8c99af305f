"""The callbacks of a trainer: those that are added to it besides its configuration's, and their files."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from towerpack_callbacks import Callback, Callbacks

from .._errors import TrainerStateError

__all__ = ["CallbackRegistration"]


class CallbackRegistration:
    """Lets callbacks be added to a trainer, until the callbacks are set up.

    Attributes:
        callbacks: the callbacks of the run.
    """

    callbacks: Callbacks
    _fixed = False

    @functools.cached_property
    def _registered(self) -> list[Callback]:
        return []  # here, as a subclass of a trainer may register before its base's `__init__`

    def register_callback(self, callback: Callback) -> None:
        """Adds a callback that runs after the trainer's own ones and before the user's.

        In a process that is not the chief, one that is `chief_only` is left out, as the user's are.

        Args:
            callback: the callback; those of several calls run in the order of the calls.

        Raises:
            TrainerStateError: the callbacks are set up already.
            TypeError: it is no callback.
        """
        if self._fixed:
            raise TrainerStateError(
                f"{type(self).__name__}.register_callback({callback}) came after the callbacks were set up, "
                "which explain() and train() do. Register it before, or give TrainConfig(callbacks=...)."
            )
        self._registered.extend(Callbacks([callback]))

    def save_files(self, directory: Path) -> None:
        """Lets callbacks put their files into folders of a checkpoint, right after `state_dict()`."""
        self.callbacks.save_files(directory)

    def _with_registered(self, own: Iterable[Callback]) -> list[Callback]:
        """Returns the trainer's own callbacks and the registered ones, of which there are no more then."""
        self._fixed = True
        return [*own, *self._registered]
