"""The states of several callbacks, each under a unique key."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .._errors import CheckpointError
from ..callback import Callback, load_state_of, state_of
from ..checkpoint.format import folder_of, key_of

__all__ = ["keyed", "load_states", "save_files_of", "states_of"]

_log = logging.getLogger("towerpack_callbacks")


def keyed(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Callback]]:
    """Yields callbacks with unique keys: "ModelSaver", "ModelSaver#2"."""
    seen: Counter[str] = Counter()
    for cb in callbacks:
        name = str(cb)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), cb


def states_of(callbacks: Iterable[Callback]) -> dict[str, dict[str, Any]]:
    """Returns the states of all callbacks with a state."""
    states = {key: state_of(cb) for key, cb in keyed(callbacks)}
    return {key: state for key, state in states.items() if state}


def save_files_of(callbacks: Iterable[Callback], directory: Path) -> None:
    """Makes callbacks write their files to a directory, each to a separate folder.

    Args:
        callbacks: the callbacks of this run.
        directory: the directory; created if a callback has files.

    Raises:
        OSError: a file cannot be written.
    """
    for key, cb in keyed(callbacks):
        if cb.overrides("save_files"):
            folder = directory / folder_of(key)
            folder.mkdir(parents=True)
            cb.save_files(folder)
            if not any(folder.iterdir()):
                folder.rmdir()


def load_states(
    callbacks: Iterable[Callback],
    states: dict[str, dict[str, Any]],
    allow_unknown: bool = False,
    files: Path | None = None,
) -> None:
    """Loads the state in `states` and the files of each callback.

    Args:
        callbacks: the callbacks of this run.
        states: the return value of `states_of`.
        allow_unknown: skip states and files of unknown callbacks, with a warning.
        files: the directory written by `save_files_of`; None or absent: there are no files.

    Raises:
        CheckpointError: a state or files belong to a callback that this run lacks.
    """
    known = dict(keyed(callbacks))
    keys = {folder_of(key): key for key in known}
    folders = sorted(files.iterdir()) if files is not None and files.is_dir() else []
    found = {keys.get(folder.name, key_of(folder.name)): folder for folder in folders}
    unknown = sorted({*states, *found} - set(known))
    if unknown:
        difference = (
            f"The checkpoint contains states of callbacks that this run lacks: {', '.join(unknown)}. "
            f"This run has: {', '.join(sorted(known)) or 'none'}."
        )
        if not allow_unknown:
            raise CheckpointError(
                f"{difference} Add them, or allow skipping their states (in a trainer, by "
                'TrainConfig(resume_allow=["callbacks"])).'
            )
        _log.warning("%s Skipped them (allowed by resume_allow).", difference)
    for key, cb in known.items():
        if key in states:
            load_state_of(cb, states[key])
        if key in found:
            cb.load_files(found[key])
