"""The environments of a worker: created in it, each with a row of the memory shared with the parent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from .._errors import EnvError
from ..runtime.transport import Channel, PeerGoneError, pack_error
from ._env_identity import env_identity
from ._episodes import Episodes
from ._space_arrays import SpaceArrays
from ._step_memory import StepMemory

__all__ = ["WorkerEnvs", "make_worker_envs"]


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
