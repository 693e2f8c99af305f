"""`SimulatorMaster`: receives the states of many simulators, and sends them actions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, EnvCallError
from .._env_workers import EnvWorkers
from ._simulator_exchange import MasterSocket, SimulatorExchange, SimulatorHooks
from ._simulator_process import SimulatorProcess, SimulatorService

__all__ = ["SimulatorMaster"]

_PATIENCE = 1.0  # seconds; a hook may be running


@final
class SimulatorMaster:
    """Runs simulators; each steps its environments when it receives actions.

    No simulator waits for another one. Messages are msgpack with arrays, over ZeroMQ; nothing received
    through the socket is unpickled, and messages of other senders are rejected.

    **Hooks.** After `start(hooks)`, a thread calls `hooks.on_states` with the states of one simulator at a
    time, and `hooks.on_episode_over`; see `SimulatorHooks`. `send` answers, from any thread.

    **Seeds.** The seed of an episode is `episode_seed(seed, environment, episode)`. All else depends on the
    actions and the order of their arrival.

    **Failures.** If an environment fails or exceeds `timeout`, or a simulator dies, all simulators are ended,
    and `hooks.on_error` receives the error, which names simulator, environment, episode and step.

    Args:
        simulators: the processes to run.
        seed: seed of all episodes; random if `None`.
        timeout: time limit of one call of an environment in seconds, its construction included; `None` for no
            limit.
        start_method: "spawn" for new interpreters, "fork" for copies of this process.

    Attributes:
        simulators: the numbers of the environments of each simulator, as ranges.
        num_envs: number of environments of all simulators.
        single_observation_space: observation space of one environment.
        single_action_space: action space of one environment.
        address: address of its socket.

    Raises:
        ArgumentError: an argument has an invalid value.
        SendError: a function cannot be pickled; the message names the failing part.
        EnvError: the environments differ in their spaces, or their spaces have no fixed shapes.
        RemoteError: too few file descriptors are left.
        WorkerDiedError: a simulator has ended during its start.

    Example:
        >>> import threading, gymnasium
        >>> class FiveStates:
        ...     def __init__(self, master):
        ...         self.master, self.left, self.over = master, 5, threading.Event()
        ...     def on_states(self, states):
        ...         self.left -= 1
        ...         if self.left:
        ...             self.master.send(states.simulator, np.zeros(len(states.environments), int))
        ...         else:
        ...             self.over.set()
        ...     def on_episode_over(self, episode):
        ...         print(f"return {episode.total}")
        ...     def on_error(self, error):
        ...         self.over.set()
        >>> make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=3)
        >>> with SimulatorMaster([SimulatorProcess(make)], seed=1) as master:
        ...     hooks = FiveStates(master)
        ...     master.start(hooks)
        ...     ended = hooks.over.wait(60)
        return 3.0
    """

    def __init__(
        self,
        simulators: Sequence[SimulatorProcess],
        *,
        seed: int | None = None,
        timeout: float | None = 300.0,
        start_method: str = "spawn",
    ) -> None:
        """Starts the processes and creates the environments."""
        if not simulators or not all(isinstance(each, SimulatorProcess) for each in simulators):
            raise ArgumentError(f"simulators is a list of SimulatorProcess; received {simulators!r}")
        limit = None if timeout is None else arguments.seconds("timeout", timeout)
        method = arguments.one_of("start_method", start_method, ("spawn", "fork"))
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        base = arguments.count("seed", drawn if seed is None else seed, least=0)
        ends = list(accumulate(len(each.make_envs) for each in simulators))
        self.simulators = [range(begin, end) for begin, end in zip([0, *ends], ends)]
        self.num_envs = ends[-1]
        self._link = MasterSocket(len(simulators))
        self.address = self._link.address
        functions = [each.make_envs for each in simulators]
        service = SimulatorService(functions, self.simulators, self.address, self._link.identities, base)
        try:
            names = ("SimulatorMaster", "simulator")
            self._workers = EnvWorkers(service, self.simulators, method, limit, names)
        except BaseException:
            self._link.close()
            raise
        self._running = _Running(self._workers, self._link)
        self._end = weakref.finalize(self, self._running.close)
        self._link.open(max(memory.size for memory in self._workers.memories))
        self.single_observation_space = self._workers.properties.observation.space
        self.single_action_space = self._workers.properties.action.space

    @property
    def running(self) -> bool:
        """Whether the simulators are running. After a failure it is False, shortly before `on_error`."""
        return self._workers.running

    @property
    def waiting(self) -> frozenset[int]:
        """The numbers of the simulators that wait for actions."""
        exchange = self._running.exchange
        return frozenset() if exchange is None else exchange.waiting

    def start(self, hooks: SimulatorHooks) -> None:
        """Starts calling the hooks, first with the states after the reset of all environments.

        Raises:
            EnvCallError: it was started before, or the simulators have ended.
        """
        self._workers.check_running()
        if self._running.exchange is not None:
            raise EnvCallError("start() was called twice; a SimulatorMaster has one thread and its hooks")
        self._running.start(SimulatorExchange(self._workers, self._link, hooks))

    def send(self, simulator: int, actions: Any) -> None:
        """Sends actions to a waiting simulator; from any thread.

        Args:
            simulator: its number.
            actions: a batch of the action space, for all its environments.

        Raises:
            ArgumentError: there is no such simulator, or the actions do not fit the action space.
            EnvCallError: the simulator does not wait for actions, or the simulators have ended.
        """
        number = arguments.count("simulator", simulator, least=0, most=len(self.simulators) - 1)
        self._workers.check_running()
        exchange = self._running.exchange
        if exchange is None or number not in exchange.waiting:
            raise EnvCallError(
                f"send() was called for simulator {number}, which does not wait for actions; answer each "
                "call of on_states once"
            )
        count, space = len(self.simulators[number]), self._workers.properties.action
        try:
            arrays = space.fit(actions, lambda part: (count, *part.shape))
        except ValueError as error:
            raise ArgumentError(
                f"the actions of simulator {number}, of {count} environments, do not fit the action "
                f"space {space.space}: {error}"
            ) from None
        parts = [np.asarray(array, part.dtype) for array, part in zip(arrays, space.parts)]
        exchange.send(number, parts)

    def close(self) -> None:
        """Ends the simulators, and the thread. A second call does nothing."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@final
class _Running:
    """The resources to release, separate from the master: its thread must not keep the master alive."""

    def __init__(self, workers: EnvWorkers, link: MasterSocket) -> None:
        self._workers, self._link = workers, link
        self.exchange: SimulatorExchange | None = None
        self._thread: threading.Thread | None = None

    def start(self, exchange: SimulatorExchange) -> None:
        self.exchange = exchange
        self._thread = threading.Thread(target=exchange.run, name="SimulatorMaster", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self.exchange is None or self._thread is None:
            self._workers.close()
            self._link.close()
        elif self._thread is threading.current_thread():
            self.exchange.stop()
            self._workers.close()
        else:
            self.exchange.stop()
            self._thread.join(_PATIENCE)  # the descriptors should stay open while it polls
            self._workers.close()
