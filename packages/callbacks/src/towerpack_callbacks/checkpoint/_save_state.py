"""Saves the states of arbitrary objects in checkpoints."""

from __future__ import annotations

from typing import Any, Protocol, final

from ..callback import Callback

__all__ = ["SaveState"]

_METHODS = ("state_dict", "load_state_dict")


class _HasState(Protocol):
    """An object with a state that can be saved."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, made of values that `Callback.state_dict` may return."""

    def load_state_dict(self, state: dict[str, Any], /) -> object:
        """Restores a state that `state_dict` returned."""


@final
class SaveState(Callback):
    """Saves the states of arbitrary objects in checkpoints, and restores them when a run is resumed.

    The states are saved with those of callbacks, after all triggers of a step, and loaded before the first
    `_before_train`. The names of the objects identify the callback: a checkpoint with different names does
    not match.

    Args:
        objects: objects by names of your choice. Each has `state_dict()`, with the same types of values as
            `Callback.state_dict`, and `load_state_dict(state)`.

    Raises:
        TypeError: an object lacks one of the two methods, or no object is given.

    Example:
        ```python
        envs = NormalizeObservation(gymnasium.make_vec("Pendulum-v1", num_envs=4))
        callbacks = [PolicyEvaluator(envs), SaveState(normalization=VectorEnvState(envs))]
        ```
    """

    chief_only = False

    def __init__(self, **objects: _HasState) -> None:
        if not objects:
            raise TypeError(
                "SaveState() received no object; expected at least one. Write SaveState(name=object)."
            )
        for name, each in objects.items():
            missing = [method for method in _METHODS if not callable(getattr(each, method, None))]
            if missing or isinstance(each, type):
                why = f"it lacks {' and '.join(missing)}" if missing else "it is a class, not an instance"
                raise TypeError(
                    f"SaveState({name}={each!r}): expected an object with {' and '.join(_METHODS)}; {why}. "
                    "Give an object that has them, such as towerpack_dataflow.envs.VectorEnvState(envs) for "
                    "vector "
                    "environments."
                )
        self._objects = objects

    def state_dict(self) -> dict[str, Any]:
        return {name: each.state_dict() for name, each in self._objects.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, each in self._objects.items():
            each.load_state_dict(state[name])

    def __str__(self) -> str:
        return f"SaveState({', '.join(self._objects)})"
