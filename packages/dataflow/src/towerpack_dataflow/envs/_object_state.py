"""The state of Python objects as JSON values: their numbers, arrays and random generators."""

from __future__ import annotations

import base64
import types
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from .._errors import StateError

__all__ = ["InexactError", "attributes_of", "set_attributes"]

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
    name = where or type(value).__name__
    found = {}
    for key, part in vars(value).items():
        if not _is_constant(part):
            found[key] = _encoded(part, f"{name}.{key}")
    return found


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
