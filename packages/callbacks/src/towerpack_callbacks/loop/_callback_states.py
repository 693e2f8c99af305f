"""The states of many callbacks, each under its own key."""

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
    """Yields callbacks with keys that tell equal ones apart: "ModelSaver", "ModelSaver#2"."""
    seen: Counter[str] = Counter()
    for cb in callbacks:
        name = str(cb)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), cb


def states_of(callbacks: Iterable[Callback]) -> dict[str, dict[str, Any]]:
    """Returns the states of all callbacks that have one."""
    states = {key: state_of(cb) for key, cb in keyed(callbacks)}
    return {key: state for key, state in states.items() if state}


def save_files_of(callbacks: Iterable[Callback], directory: Path) -> None:
    """Lets callbacks that have files put them into a directory, each into a folder of its own.

    Args:
        callbacks: the callbacks of this run.
        directory: is made if a callback has files.

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
    """Loads the state of each callback that has one in `states`, and its files.

    Args:
        callbacks: the callbacks of this run.
        states: the return value of `states_of`.
        allow_unknown: leave out, with a warning, what belongs to no callback of this run.
        files: the directory that `save_files_of` has filled; None or absent: there are no files.

    Raises:
        CheckpointError: a state, or files, belong to no callback of this run.
    """
    known = dict(keyed(callbacks))
    keys = {folder_of(key): key for key in known}
    folders = sorted(files.iterdir()) if files is not None and files.is_dir() else []
    found = {keys.get(folder.name, key_of(folder.name)): folder for folder in folders}
    unknown = sorted({*states, *found} - set(known))
    if unknown:
        difference = (
            f"The checkpoint holds the state of callbacks this run has not: {', '.join(unknown)}. "
            f"This run has: {', '.join(sorted(known)) or 'none'}."
        )
        if not allow_unknown:
            raise CheckpointError(
                f"{difference} Add them, or allow their states to be left out (a trainer does by "
                'TrainConfig(resume_allow=["callbacks"])).'
            )
        _log.warning("%s They are left out, as is allowed.", difference)
    for key, cb in known.items():
        if key in states:
            load_state_of(cb, states[key])
        if key in found:
            cb.load_files(found[key])
