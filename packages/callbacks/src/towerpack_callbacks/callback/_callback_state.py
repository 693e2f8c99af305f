"""The state of an object as a callback, kept apart from its state as data where it is both."""

from __future__ import annotations

import copy
import logging
from typing import Any, Protocol

__all__ = ["forget_state", "load_state_of", "state_of"]

_log = logging.getLogger("towerpack_callbacks")


class HasState(Protocol):
    """A callback, as far as its state is concerned."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes back what `state_dict` returned."""


def state_of(callback: HasState) -> dict[str, Any]:
    """Returns the state of an object as a callback.

    The `state_dict()` of one that is a flow as well belongs to the flow, whose input saves and restores it.
    As a callback it returns its state from `callback_state_dict()`, and takes it back by
    `load_callback_state_dict(state)`; without them it has none.
    """
    if not _is_flow(callback):
        return callback.state_dict()
    state: dict[str, Any] = getattr(callback, "callback_state_dict", dict)()
    return state


def load_state_of(callback: HasState, state: dict[str, Any]) -> None:
    """Gives an object its state as a callback."""
    if not _is_flow(callback):
        callback.load_state_dict(state)
    elif hasattr(callback, "load_callback_state_dict"):
        callback.load_callback_state_dict(state)
    else:
        _log.info("%s is a flow, too, and has no state as a callback: the saved one is not used.", callback)


def forget_state(callback: HasState, first: dict[str, Any] | None) -> dict[str, Any]:
    """Gives a callback the state of its first training again, unless it has that.

    Args:
        callback: the callback.
        first: that state; None: it is the present one.

    Returns:
        The first state, a copy that no training changes.
    """
    state = state_of(callback)
    if first is None:
        return copy.deepcopy(state)
    if _differs(state, first):
        load_state_of(callback, copy.deepcopy(first))
    return first


def _differs(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one != other
    except ValueError:  # arrays among the values, which no checkpoint could save
        return True


def _is_flow(callback: HasState) -> bool:
    """Returns whether a callback can be read as data; by its methods, as this wheel knows no flow."""
    return hasattr(callback, "__iter__") and hasattr(callback, "reset_state")
