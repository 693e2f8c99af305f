"""The identity of an environment as text, equal in all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["env_identity"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_FOR_PEOPLE = ("render_mode",)  # an argument that changes no transition


def env_identity(env: Any) -> str:
    """Returns the class of an environment, and the id, arguments and wrappers in its spec.

    Args:
        env: an environment of gymnasium, or a vector environment.

    Example:
        >>> import gymnasium
        >>> env_identity(gymnasium.make("CartPole-v1", sutton_barto_reward=True))
        'CartPoleEnv CartPole-v1(max_episode_steps=500, sutton_barto_reward=True)'
    """
    name = type(getattr(env, "unwrapped", env)).__name__
    spec = getattr(env, "spec", None)
    if spec is None:
        return name
    arguments = {"max_episode_steps": spec.max_episode_steps, **dict(spec.kwargs)}
    wrappers = "".join(
        f" {wrapper.name}({_text_of(wrapper.kwargs or {})})" for wrapper in spec.additional_wrappers or ()
    )
    return f"{name} {spec.id}({_text_of(arguments)}){wrappers}"


def _text_of(arguments: Mapping[str, Any]) -> str:
    kept = sorted((key, value) for key, value in arguments.items() if key not in _FOR_PEOPLE)
    return ", ".join(f"{key}={_value(value)}" for key, value in kept)


def _value(value: Any) -> str:
    """Returns the text of a value; only the type if the text of the object may contain an address."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)}: {_value(part)}' for key, part in value.items())}}}"
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return f"{value.dtype}{_value(value.tolist())}"
    return type(value).__name__
