"""The states of the global random number generators, as JSON values."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["random_state", "set_random_state"]


def random_state() -> dict[str, Any]:
    """Returns the states of the generators of `random` and `numpy.random`.

    Towerpack derives its random numbers from seed and position and has no such state; user code may have.
    """
    version, internal, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    assert isinstance(numpy_state, dict)
    return {
        "python": [version, list(internal), gauss],
        "numpy": {**numpy_state, "state": _as_lists(numpy_state["state"])},
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restores the states that `random_state` returned.

    Raises:
        ValueError: the state belongs to a different kind of generator.
    """
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = dict(state["numpy"])
    numpy_state["state"] = {
        key: np.array(value, np.uint32) if isinstance(value, list) else value
        for key, value in numpy_state["state"].items()
    }
    np.random.set_state(numpy_state)


def _as_lists(internal: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in internal.items()}
