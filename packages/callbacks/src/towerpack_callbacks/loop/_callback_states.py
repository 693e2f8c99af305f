"""The states of many callbacks, each under its own key."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .._errors import CheckpointError
from ..callback import Callback, load_state_of, state_of

__all__ = ["keyed", "load_states", "states_of"]

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


def load_states(
    callbacks: Iterable[Callback], states: dict[str, dict[str, Any]], allow_unknown: bool = False
) -> None:
    """Loads the state of each callback that has one in `states`.

    Args:
        callbacks: the callbacks of this run.
        states: the return value of `states_of`.
        allow_unknown: leave out, with a warning, what belongs to no callback of this run.

    Raises:
        CheckpointError: a state belongs to no callback of this run.
    """
    known = dict(keyed(callbacks))
    unknown = sorted(set(states) - set(known))
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
    for key, state in states.items():
        if key in known:
            load_state_of(known[key], state)
