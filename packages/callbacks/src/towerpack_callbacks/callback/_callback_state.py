"""The state of an object as a callback, kept apart from its state as data where it is both."""

from __future__ import annotations

import logging
from typing import Any

from ._callback import Callback

__all__ = ["load_state_of", "state_of"]

_log = logging.getLogger("towerpack_callbacks")


def state_of(callback: Callback) -> dict[str, Any]:
    """Returns the state of an object as a callback.

    The `state_dict()` of one that is a flow as well belongs to the flow, whose input saves and restores it.
    As a callback it returns its state from `callback_state_dict()`, and takes it back by
    `load_callback_state_dict(state)`; without them it has none.
    """
    if not _is_flow(callback):
        return callback.state_dict()
    state: dict[str, Any] = getattr(callback, "callback_state_dict", dict)()
    return state


def load_state_of(callback: Callback, state: dict[str, Any]) -> None:
    """Gives an object its state as a callback."""
    if not _is_flow(callback):
        callback.load_state_dict(state)
    elif hasattr(callback, "load_callback_state_dict"):
        callback.load_callback_state_dict(state)
    else:
        _log.info("%s is a flow, too, and has no state as a callback: the saved one is not used.", callback)


def _is_flow(callback: Callback) -> bool:
    """Returns whether a callback can be read as data; by its methods, as this wheel knows no flow."""
    return hasattr(callback, "__iter__") and hasattr(callback, "reset_state")
