"""Messages between simulators and their master, as msgpack and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..._errors import MessageError
from ...remote import pack_message, unpack_message
from .._space_arrays import SpaceArrays, StepMemory

__all__ = [
    "SimulatorEpisode",
    "SimulatorStates",
    "packed_actions",
    "packed_states",
    "unpacked_actions",
    "unpacked_states",
]

_STATES, _ACTIONS = "states", "actions"


@final
class SimulatorStates(NamedTuple):
    """The results of one step of a simulator's environments. Arrays may be read-only.

    Attributes:
        simulator: its number.
        environments: the numbers of its environments, which are the first axis of all arrays.
        observation: batch of the environments' observation space.
        reward: float64.
        terminated: bool, whether the episode has terminated.
        truncated: bool, whether the episode was truncated.
        valid: bool; False for a mere reset: at the beginning, and in the step after the end of an episode,
            which ignores its action.

    Example:
        >>> zeros = np.zeros(2, bool)
        >>> states = SimulatorStates(0, range(2, 4), np.zeros((2, 4)), np.ones(2), zeros, zeros, ~zeros)
        >>> list(states.environments), states.reward.tolist()
        ([2, 3], [1.0, 1.0])
    """

    simulator: int
    environments: range
    observation: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray


@final
class SimulatorEpisode(NamedTuple):
    """A finished episode.

    Attributes:
        simulator: the number of the simulator.
        environment: the number of the environment, among those of all simulators.
        total: the sum of its rewards, not discounted: its return.
        length: number of its steps.

    Example:
        >>> SimulatorEpisode(simulator=0, environment=3, total=200.0, length=200).total
        200.0
    """

    simulator: int
    environment: int
    total: float
    length: int


def packed_states(memory: StepMemory) -> list[Any]:
    """Encodes the results of the environments of a simulator."""
    return pack_message([_STATES, memory.observations, memory.rewards, memory.terminated, memory.truncated])


def packed_actions(actions: Sequence[np.ndarray]) -> list[Any]:
    """Encodes actions: one array per part of the space."""
    return pack_message([_ACTIONS, list(actions)])


def unpacked_states(
    frames: Sequence[Any], count: int, observation: SpaceArrays, most: int
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Decodes the result of `packed_states`.

    Args:
        frames: the received frames.
        count: number of environments of the simulator.
        observation: their observation space.
        most: largest allowed size of the message in bytes.

    Returns:
        The parts of the observations, rewards, terminated, truncated.

    Raises:
        MessageError: the frames have another content.
    """
    found = _contents(unpack_message(frames, most), _STATES, 4)
    wanted = [((count, *part.shape), part.dtype) for part in observation.parts]
    parts = found[0] if isinstance(found[0], list) else []
    rows = [((count,), np.dtype(kind)) for kind in (np.float64, np.bool_, np.bool_)]
    _check([*parts, *found[1:]], [*wanted, *rows])
    return parts, found[1], found[2], found[3]


def unpacked_actions(frames: Sequence[Any], memory: StepMemory) -> list[np.ndarray]:
    """Decodes the result of `packed_actions` for the environments of `memory`.

    Raises:
        MessageError: the frames have another content.
    """
    [parts] = _contents(unpack_message(frames), _ACTIONS, 1)
    if not isinstance(parts, list):
        raise MessageError(f"a message has {type(parts).__name__} for actions; expected a list of arrays")
    _check(parts, [(array.shape, array.dtype) for array in memory.actions])
    return parts


def _contents(message: Any, kind: str, count: int) -> list[Any]:
    if not isinstance(message, list) or len(message) != count + 1 or message[0] != kind:
        raise MessageError(f"a message between simulator and master has no {kind}; received {message!r:.200}")
    return message[1:]


def _check(arrays: Sequence[Any], wanted: Sequence[tuple[tuple[int, ...], np.dtype]]) -> None:
    found = [(getattr(array, "shape", None), getattr(array, "dtype", None)) for array in arrays]
    if found != list(wanted):
        raise MessageError(
            f"a message between simulator and master has arrays of {found}; expected {list(wanted)}, from "
            "the spaces of the environments"
        )
