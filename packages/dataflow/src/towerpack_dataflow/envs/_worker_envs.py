"""The environments of a worker, each with a row of the shared memory, and their identity as text."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from .._errors import EnvError, StateError
from ..runtime.transport._channel import Channel, PeerGoneError
from ..runtime.transport._remote_errors import pack_error
from ..storage import dump_by_value
from ._episodes import Episodes
from ._space_arrays import SpaceArrays, StepMemory

__all__ = ["WorkerEnvs", "WorkerLink", "check_identity", "env_identity", "make_worker_envs"]

_HEADER = struct.Struct("<I")
_BELL = _HEADER.pack(0)
_MOST_BYTES = 2**16


@final
class WorkerLink:
    """One end of a connection, used after the `Channel` has set up the shared memory.

    A step sends four bytes in each direction. `Channel` takes twice the time for its messages, which carry
    slots.

    Args:
        end: one of a pair of connected unix sockets.
    """

    def __init__(self, end: socket.socket) -> None:
        """Takes ownership of the socket."""
        self._end = end
        self._received = bytearray()

    def ring(self) -> None:
        """Sends the empty message.

        Raises:
            PeerGoneError: the other end is closed.
        """
        self._sent(_BELL)

    def send(self, value: Any) -> None:
        """Sends a value; sends classes defined in the user's script by value.

        Raises:
            PeerGoneError: the other end is closed.
            pickle.PicklingError, TypeError, AttributeError: `value` cannot be pickled; nothing was sent.
        """
        pickled = dump_by_value(value)
        self._sent(_HEADER.pack(len(pickled)) + pickled)

    def receive(self) -> list[Any]:
        """Waits for bytes and returns the completed messages; `None` stands for the empty one.

        Raises:
            PeerGoneError: the other end is closed.
        """
        try:
            data = self._end.recv(_MOST_BYTES)
        except ConnectionResetError as error:
            raise PeerGoneError from error
        if not data:
            raise PeerGoneError
        if data == _BELL and not self._received:
            return [None]
        self._received += data
        messages = []
        while len(self._received) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            pickled = bytes(self._received[_HEADER.size : end])
            del self._received[:end]
            messages.append(pickle.loads(pickled) if pickled else None)
        return messages

    def _sent(self, data: bytes) -> None:
        try:
            self._end.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGoneError from error


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


def check_identity(owner: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuses a state of other environments.

    Args:
        owner: the object with the state, for the error.
        theirs: the properties of the environments of the state, by name.
        ours: those of these environments.

    Raises:
        StateError: a property differs, or the state lacks it.
    """
    differences = {name: (theirs.get(name), mine) for name, mine in ours.items() if theirs.get(name) != mine}
    if differences:
        text = "; ".join(f"{name} {old} in the state, {new} here" for name, (old, new) in differences.items())
        raise StateError(f"this state belongs to another {owner}: {text}", differences)
