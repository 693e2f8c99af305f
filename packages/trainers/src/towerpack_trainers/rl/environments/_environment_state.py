"""The state of environments, for resuming a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, final

from ..._errors import ConfigError
from .._protocols import EnvironmentState

__all__ = ["state_of"]

_log = logging.getLogger("towerpack_trainers")
_METHODS = ("state_dict", "load_state_dict")


def state_of(envs: Any, given: Any) -> EnvironmentState | None:
    """Returns the state of vector environments, or of a list of groups of them.

    Args:
        envs: the environments, or the list.
        given: their state, such as `VectorEnvState(envs)`, or a list with one for each group; None: that of
            the environments, if they have one.

    Raises:
        ConfigError: `given` is not a state, or has a wrong number of groups.
    """
    if isinstance(envs, (list, tuple)):
        return _state_of_groups(envs, given)
    if given is None and all(hasattr(envs, name) for name in _METHODS):
        given = envs
    missing = [name for name in _METHODS if given is not None and not hasattr(given, name)]
    if missing:
        raise ConfigError(
            f"env_state={given!r} has no {' and no '.join(missing)}. Use "
            "towerpack_dataflow.envs.VectorEnvState(envs)."
        )
    if given is None or not getattr(given, "exact", True):
        _log.info(
            "A resumed run will reset these environments: their state cannot be saved. To resume exactly, "
            "use towerpack_dataflow.envs.ProcessVectorEnv; or env_state=VectorEnvState(envs), if the "
            "environments support it."
        )
    return given  # type: ignore[no-any-return]


def _state_of_groups(envs: Sequence[Any], given: Any) -> EnvironmentState | None:
    states = [None] * len(envs) if given is None else given
    if not isinstance(states, (list, tuple)) or len(states) != len(envs):
        raise ConfigError(
            f"env_state={given!r}: expected a list of {len(envs)} states, one for each group of envs."
        )
    found = [state_of(group, state) for group, state in zip(envs, states)]
    return None if None in found else _GroupStates([each for each in found if each is not None])


@final
class _GroupStates:
    """The states of several groups of environments.

    Attributes:
        exact: whether all of them continue exactly.
    """

    def __init__(self, states: Sequence[EnvironmentState]) -> None:
        self._states = states
        self.exact = all(getattr(state, "exact", True) for state in states)

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all groups."""
        return {"groups": [state.state_dict() for state in self._states]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the states of all groups."""
        for group, kept in zip(self._states, state["groups"]):
            group.load_state_dict(kept)
