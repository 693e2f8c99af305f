"""The callback state of an object, separate from its state as a flow if it is both."""

from __future__ import annotations

import copy
import logging
from typing import Any, Protocol

__all__ = ["forget_state", "load_state_of", "state_of"]

_log = logging.getLogger("towerpack_callbacks")


class HasState(Protocol):
    """An object with a state, such as a callback."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""


def state_of(callback: HasState) -> dict[str, Any]:
    """Returns the state of an object as a callback.

    If the object is also a flow, its `state_dict()` belongs to the flow, and the training's input saves and
    restores it. Its callback state comes from `callback_state_dict()` and is restored by
    `load_callback_state_dict(state)`; without these methods it has no callback state.
    """
    if not _is_flow(callback):
        return callback.state_dict()
    state: dict[str, Any] = getattr(callback, "callback_state_dict", dict)()
    return state


def load_state_of(callback: HasState, state: dict[str, Any]) -> None:
    """Restores the state of an object as a callback."""
    if not _is_flow(callback):
        callback.load_state_dict(state)
    elif hasattr(callback, "load_callback_state_dict"):
        callback.load_callback_state_dict(state)
    else:
        _log.info("%s is also a flow and has no callback state; ignoring the saved state.", callback)


def forget_state(callback: HasState, first: dict[str, Any] | None) -> dict[str, Any]:
    """Resets a callback to its first initial state, unless it already has it.

    Args:
        callback: the callback.
        first: the first initial state; None: the present state is the first.

    Returns:
        The first initial state, as a copy that no training changes.
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
    except ValueError:  # arrays in the state, which no checkpoint could save
        return True


def _is_flow(callback: HasState) -> bool:
    """Returns whether a callback is also a flow, judged by its methods: this wheel does not import flows."""
    return hasattr(callback, "__iter__") and hasattr(callback, "reset_state")
