"""`VectorEnvState`: the state of any vector environment, as exact as possible."""

from __future__ import annotations

import base64
import copy
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers.vector import NormalizeObservation, NormalizeReward

from .._errors import ArgumentTypeError, StateError
from ._process_vector_env import ProcessVectorEnv
from ._worker_envs import check_identity, env_identity

__all__ = ["InexactError", "VectorEnvState", "attributes_of", "set_attributes"]

_CONSTANT = (gymnasium.Space, EnvSpec, Enum, type, types.FunctionType, types.MethodType, types.ModuleType)


class InexactError(ValueError):
    """An attribute cannot be saved in a state; the message names it."""


def attributes_of(value: Any, where: str = "") -> dict[str, Any]:
    """Returns the state of an object's attributes, without spaces, functions and other constants.

    Args:
        value: an environment, a wrapper, or another object.
        where: its name, for messages.

    Raises:
        InexactError: the state of an attribute's type is unknown.
    """
    return _encoded_all(vars(value), where or type(value).__name__)


def _encoded_all(attributes: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        key: _encoded(part, f"{name}.{key}") for key, part in attributes.items() if not _is_constant(part)
    }


def set_attributes(value: Any, state: Mapping[str, Any]) -> None:
    """Sets the attributes of an object to those of a state.

    Raises:
        StateError: the object lacks an attribute of the state.
    """
    for key, part in state.items():
        if key not in vars(value):
            raise StateError(f"this state has an attribute {key!r}, which {type(value).__name__} lacks")
        setattr(value, key, _decoded(part, getattr(value, key)))


def _encoded(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, np.generic) else _encoded(np.asarray(value), where)
    if isinstance(value, (np.ndarray, np.generic)) and not np.asarray(value).dtype.hasobject:
        kind = "array" if isinstance(value, np.ndarray) else "number"
        array = np.ascontiguousarray(value)
        raw = base64.b64encode(array.tobytes()).decode()
        return {"is": kind, "dtype": array.dtype.str, "shape": list(np.shape(value)), "data": raw}
    if isinstance(value, np.random.Generator):
        return {"is": "generator", "state": value.bit_generator.state}
    if isinstance(value, (list, tuple, deque)):
        parts = [_encoded(part, f"{where}[{at}]") for at, part in enumerate(value) if not _is_constant(part)]
        if len(parts) == len(value):
            return {"is": type(value).__name__, "parts": parts}
        return {"is": "constant"}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = {
            key: _encoded(part, f"{where}[{key!r}]") for key, part in value.items() if not _is_constant(part)
        }
        return {"is": "dict", "parts": inner}
    if isinstance(value, gymnasium.Env):
        return {"is": "object", "class": type(value).__name__, "attributes": attributes_of(value, where)}
    raise InexactError(f"{where} is a {type(value).__name__}, a type with unknown state")


def _is_constant(value: Any) -> bool:
    if isinstance(value, types.GeneratorType):
        return value.gi_frame is None  # exhausted: a remnant of functions in older releases
    return isinstance(value, _CONSTANT)


def _decoded(state: Any, present: Any) -> Any:
    if not isinstance(state, Mapping):
        return state
    kind = state["is"]
    if kind == "constant":
        return present
    if kind in {"array", "number"}:
        flat = np.frombuffer(base64.b64decode(state["data"]), np.dtype(state["dtype"]))
        array = flat.reshape(state["shape"]).copy()
        return array if kind == "array" else array[()]
    if kind == "generator":
        return _generator(state["state"])
    if kind == "dict":
        parts = {key: _decoded(part, present.get(key)) for key, part in state["parts"].items()}
        return {**present, **parts} if isinstance(present, dict) else parts
    if kind == "object":
        if type(present).__name__ != state["class"]:
            raise StateError(f"this state has a {state['class']} in place of a {type(present).__name__}")
        set_attributes(present, state["attributes"])
        return present
    return _sequence(state, present)


def _sequence(state: Mapping[str, Any], present: Any) -> Any:
    known = list(present) if isinstance(present, (list, tuple, deque)) else []
    known += [None] * (len(state["parts"]) - len(known))
    parts = [_decoded(part, old) for part, old in zip(state["parts"], known)]
    if state["is"] == "deque":
        return deque(parts, getattr(present, "maxlen", None))
    return parts if state["is"] == "list" else tuple(parts)


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


# Changing attributes of normalising wrappers: running statistics, and discounted returns.
_STATISTICS = ("obs_rms", "return_rms")
_ARRAYS = ("accumulated_reward", "_prev_dones", "_update_running_mean")
_COMPILED = {"ale_py", "envpool"}  # their games are C++ objects, without attributes


@final
class VectorEnvState:
    """Saves and restores a vector environment, its wrappers included.

    A `ProcessVectorEnv` has its own state. A vector environment written in Python, such as gymnasium's
    `CartPoleVectorEnv` or a `SyncVectorEnv` of Python environments, is saved as an object: its numbers,
    arrays, random generators and pending resets. When a state is loaded, a reset and a step are tried twice
    from it: an environment that does not repeat them depends on more than its attributes, such as a global
    generator or a clock, and the state is rejected. The state of all others is unknown (ale-py, EnvPool,
    `AsyncVectorEnv`): `exact` is False, and after `load_state_dict` they must be reset.

    The statistics of gymnasium's `NormalizeObservation` and `NormalizeReward` are part of every state.

    Args:
        envs: the vector environment, or a wrapper around one.

    Attributes:
        exact: whether a loaded state continues exactly the same episodes, or is rejected.
        reason: the reason if `exact` is False; empty if it is True.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment of gymnasium.

    Example:
        >>> import gymnasium
        >>> envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
        >>> _ = envs.reset(seed=7)
        >>> kept = VectorEnvState(envs).state_dict()
        >>> first = envs.step(envs.action_space.sample() * 0)[0]
        >>> VectorEnvState(envs).load_state_dict(kept)
        >>> bool((envs.step(envs.action_space.sample() * 0)[0] == first).all())
        True
    """

    def __init__(self, envs: Any) -> None:
        """Inspects the layers of the vector environment."""
        if not isinstance(envs, VectorEnv):
            raise ArgumentTypeError(f"envs is a gymnasium.vector.VectorEnv; received {type(envs).__name__}")
        self._layers = list(_layers(envs))
        self._base = self._layers[-1]
        self.reason = self._why_inexact()
        self.exact = not self.reason

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, as JSON values; only that of its wrappers if it is not exact."""
        wrappers = [_wrapper_state(layer) for layer in self._layers[:-1]]
        return {
            "classes": self._classes(),
            "identity": self._identity(),
            "wrappers": wrappers,
            "envs": self._base_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state.

        Raises:
            StateError: it belongs to another vector environment, or to other wrappers; or the environments do
                not repeat a reset or a step from it, and must be reset.
        """
        if state.get("classes") != self._classes():
            raise StateError(
                f"this state belongs to {state.get('classes')}, but was loaded into {self._classes()}; use "
                "the same vector environment with the same wrappers"
            )
        identity = self._identity()
        check_identity("vector environment", state.get("identity", identity), identity)
        for layer, kept in zip(self._layers, state["wrappers"]):
            _load_wrapper(layer, kept)
        if state["envs"] is None:
            return
        if isinstance(self._base, ProcessVectorEnv):
            self._base.load_state_dict(state["envs"])
        else:
            _check_repeats(self._base, state["envs"])

    def _classes(self) -> list[str]:
        return [type(layer).__name__ for layer in self._layers]

    def _identity(self) -> dict[str, Any]:
        base = self._base
        spaces = ("single_observation_space", "single_action_space")
        return {
            "number of environments": base.num_envs,
            "environments": [env_identity(env) for env in (base, *getattr(base, "envs", ()))],
            **{name: str(getattr(base, name, None)) for name in spaces},
        }

    def _base_state(self) -> dict[str, Any] | None:
        if isinstance(self._base, ProcessVectorEnv):
            return self._base.state_dict()
        return attributes_of(self._base) if self.exact else None

    def _why_inexact(self) -> str:
        base = self._base
        if isinstance(base, ProcessVectorEnv):
            return base.reason
        name = type(base).__name__
        if isinstance(base, AsyncVectorEnv) or type(base).__module__.partition(".")[0] in _COMPILED:
            return (
                f"{name} keeps its environments where their state cannot be read; a ProcessVectorEnv is exact"
            )
        try:
            attributes_of(base)
        except InexactError as error:
            return str(error)
        return ""


def _layers(envs: Any) -> Iterator[Any]:
    while isinstance(envs, VectorWrapper):
        yield envs
        envs = envs.env
    yield envs


def _check_repeats(envs: Any, state: Mapping[str, Any]) -> None:
    """Steps and resets twice from a state, compares, and leaves the environments in that state."""
    space = copy.deepcopy(envs.action_space)
    space.seed(0)
    action = space.sample()
    resets: list[int | str] = []
    steps: list[int | str] = []
    for _ in range(2):
        resets.append(_digest_of(lambda: envs.reset(seed=0)))  # also creates attributes in new environments
        set_attributes(envs, state)
        steps.append(_digest_of(lambda: envs.step(action)))
    for name, digests in {"a reset": resets, "a step": steps}.items():
        if digests[0] != digests[1]:
            raise StateError(
                f"{type(envs).__name__} does not repeat {name}: its environments depend on "
                "more than their attributes, such as a global generator or a clock. Draw random numbers from "
                "self.np_random; or load no state, and reset the environments"
            )
    envs.reset(seed=0)
    set_attributes(envs, state)


def _digest_of(call: Callable[[], tuple[Any, ...]]) -> int | str:
    """Returns a checksum of the results of a reset or a step, without infos; or the error it raises."""
    try:
        results = call()[:-1]
    except Exception as error:  # such as a step in a state before the first reset
        return type(error).__name__
    value = 0
    for part in _arrays_in(results):
        value = zlib.crc32(part.tobytes(), value)
    return value


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _arrays_in(part)
    elif not np.asarray(value).dtype.hasobject:
        yield np.asarray(value)


def _wrapper_state(layer: Any) -> dict[str, Any]:
    if not isinstance(layer, (NormalizeObservation, NormalizeReward)):
        return {}
    parts = vars(layer)
    state = {name: attributes_of(parts[name]) for name in _STATISTICS if name in parts}
    arrays = {name: parts[name] for name in _ARRAYS if name in parts}
    return {**state, "arrays": _encoded_all(arrays, type(layer).__name__)}


def _load_wrapper(layer: Any, state: Mapping[str, Any]) -> None:
    for name, kept in state.items():
        set_attributes(layer if name == "arrays" else vars(layer)[name], kept)
