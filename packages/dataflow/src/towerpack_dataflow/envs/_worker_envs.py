"""The environments of a worker, each with a row of the shared memory, and their identity as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from .._errors import EnvError
from ..runtime.transport import Channel, PeerGoneError, pack_error
from ._episodes import Episodes
from ._space_arrays import SpaceArrays
from ._step_memory import StepMemory

__all__ = ["WorkerEnvs", "env_identity", "make_worker_envs"]


@final
class WorkerEnvs(NamedTuple):
    """The objects created by a worker.

    Attributes:
        envs: the environments.
        episodes: the episodes of each of them.
        memory: shared with the parent.
    """

    envs: Sequence[Any]
    episodes: Sequence[Episodes]
    memory: StepMemory


def make_worker_envs(
    channel: Channel, make_envs: Sequence[Callable[[], Any]], numbers: range, mode: str
) -> WorkerEnvs:
    """Creates environments, reports their spaces to the parent, and maps the memory received in return.

    Args:
        channel: connection to the parent; `EnvWorkers` is the other side.
        make_envs: a function for each environment.
        numbers: numbers of the environments among those of all workers.
        mode: the name of the autoreset mode.

    Raises:
        PeerGoneError: the parent has closed the connection, for example because an environment failed.
    """
    envs = [_made(channel, number, make) for number, make in zip(numbers, make_envs)]
    spaces = [(env.observation_space, env.action_space) for env in envs]
    metadata = dict(getattr(envs[0], "metadata", None) or {})
    head = ("made", metadata, getattr(envs[0], "render_mode", None), list(map(env_identity, envs)))
    channel.send(head, spaces)
    received = channel.receive()
    assert received is not None
    observation, action = SpaceArrays(spaces[0][0], "observation"), SpaceArrays(spaces[0][1], "action")
    memory = StepMemory(received[1].open()[0], len(envs), observation, action)
    episodes = [
        Episodes(env, number, row, memory, mode, observation, action)
        for row, (number, env) in enumerate(zip(numbers, envs))
    ]
    channel.send(("attached",))
    return WorkerEnvs(envs, episodes, memory)


def _made(channel: Channel, number: int, make: Callable[[], Any]) -> Any:
    channel.send(("making", number))
    try:
        env = make()
        for name in ("observation_space", "action_space", "step", "reset"):
            if not hasattr(env, name):
                raise EnvError(
                    f"the function of environment {number} returned {type(env).__name__}, which has no "
                    f"{name!r}; expected a gymnasium.Env"
                )
    except Exception as error:
        channel.send(("failed", f"in environment {number}, while it was made", pack_error(error)))
        raise PeerGoneError from error  # the parent closes the connection now
    return env


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
