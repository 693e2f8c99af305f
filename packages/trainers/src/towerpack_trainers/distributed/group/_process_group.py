"""The group of processes in one training: its members, their agreement, and the loss of one."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, final

from ..._errors import PeerLostError, describe_error, enumerate_names
from ..cluster._cluster import Cluster, is_loopback, resolve_token, split_address
from ._connection import Handshake
from ._heartbeat import HeartbeatMonitor, Progress
from ._rendezvous import Connections, call_chief, receive_calls

__all__ = ["ProcessGroup", "check_times", "join_cluster"]

_log = logging.getLogger("towerpack_trainers")

_LONGEST_REASON = 1000  # characters, for readability; a heartbeat has room for more


@final
class ProcessGroup:
    """The processes of a training, with all their communication except tensors.

    All of them must make the same calls in the same order: `gather`, `share` and `barrier` wait for all, and
    raise as soon as a process is lost.

    Args:
        rank: the rank of this process.
        names: the name of each rank in messages.
        connections: the connections from the rendezvous.
        peer_timeout: the time without a heartbeat, in seconds, after which a process counts as lost.
        step_timeout: the maximum time of an `interruptible` block, in seconds.

    Example:
        ```python
        accuracies = group.gather(accuracy)  # one of each process, in the order of ranks
        group.barrier()
        ```
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        connections: Connections,
        peer_timeout: float,
        step_timeout: float = math.inf,
    ) -> None:
        self.rank, self.size = rank, len(names)
        self.names = tuple(names)
        self.peer_timeout, self.step_timeout = peer_timeout, step_timeout
        self._control = connections.control
        self._cancel: Callable[[], None] | None = None
        self._cancelled = False
        self._cancelling = threading.Lock()
        self._since = 0.0
        self._late: PeerLostError | None = None
        self._closed = False
        self._monitor = HeartbeatMonitor(
            rank, names, connections.heartbeat, peer_timeout, self._on_lost_peer, self._on_heartbeat
        )

    @property
    def is_chief(self) -> bool:
        """Whether this process is rank 0."""
        return self.rank == 0

    @property
    def progress(self) -> dict[int, Progress]:
        """The progress of each rank, from its latest heartbeat."""
        return {**self._monitor.progress}

    # ---- agreeing

    def gather(self, value: Any) -> list[Any]:
        """Collects one value of each process, by rank, in all processes.

        Args:
            value: JSON values.

        Raises:
            PeerLostError: a process is lost.
        """
        with self._reporting_loss():
            if not self.is_chief:
                self._control[0].send(value)
                values: list[Any] = self._control[0].receive()
                return values
            values = [value, *(self._control[rank].receive() for rank in range(1, self.size))]
            for connection in self._control.values():
                connection.send(values)
            return values

    def share(self, value: Any = None) -> Any:
        """Returns the chief's value in all processes; the values of others are ignored.

        Raises:
            PeerLostError: a process is lost.
        """
        with self._reporting_loss():
            if not self.is_chief:
                return self._control[0].receive()
            for connection in self._control.values():
                connection.send(value)
            return value

    def barrier(self) -> None:
        """Waits until all processes have reached this call."""
        self.gather(None)

    # ---- failing together

    def check(self) -> None:
        """Returns if all processes are alive.

        Raises:
            PeerLostError: a process is lost; the message names it.
        """
        if self._monitor.lost_peer is not None:
            raise self.error()
        if self._late is not None:
            raise self._late

    @contextlib.contextmanager
    def interruptible(self, step: int, cancel: Callable[[], None]) -> Iterator[None]:
        """Runs a block that waits for others; `cancel` interrupts it after a lost process or a time-out.

        Args:
            step: the number of finished steps of this process, for reports.
            cancel: called in another thread, and only while the block runs.

        Raises:
            PeerLostError: a process was lost before or during the block; or the time is over. The error of
                the cancelled block is its cause.
        """
        self._since = time.monotonic()
        self._monitor.note_progress(step, in_step=True)
        self._cancelled, self._cancel = False, cancel
        try:
            self.check()
            yield
        except Exception as broken:
            # A cancelled block fails with various errors, such as that of a closed session.
            if self._end_of_block() and not isinstance(broken, PeerLostError):
                self._raise_loss(broken)
            raise
        finally:
            self._end_of_block()
        self._monitor.note_progress(step + 1, in_step=False)
        self.check()

    def _end_of_block(self) -> bool:
        """Disables cancelling; returns whether the block was cancelled."""
        with self._cancelling:
            self._cancel = None
            return self._cancelled

    def _raise_loss(self, broken: Exception) -> None:
        try:
            self.check()
        except PeerLostError as lost:
            raise lost from broken

    def _cancel_block(self) -> None:
        assert self._cancel is not None
        self._cancelled = True
        self._cancel()

    def _on_lost_peer(self) -> None:
        with self._cancelling:
            if self._cancel is not None:
                self._cancel_block()
        for connection in list(self._control.values()):
            connection.close()

    def _on_heartbeat(self) -> None:
        with self._cancelling:
            waiting = self._cancel is not None and self._late is None
            if waiting and time.monotonic() - self._since > self.step_timeout:
                self._late = self.late()
                self._cancel_block()

    def wait_for_lost_peer(self, timeout: float | None = None) -> None:
        """Waits until the process that broke the exchange is identified.

        Args:
            timeout: the time to wait, in seconds; None: the longest time that the detection may take.

        Raises:
            PeerLostError: a process is lost; the message names it.
        """
        self._monitor.peer_lost.wait(self.peer_timeout + 2 if timeout is None else timeout)
        self.check()

    def error(self) -> PeerLostError:
        """Returns the error for the lost process."""
        lost = self._monitor.lost_peer
        assert lost is not None
        if lost.rank == self.rank:
            return PeerLostError(
                f"The others have given up this process ({self.names[self.rank]}): {lost.reason}. "
                "They have stopped; start all processes again.",
                lost.rank,
            )
        name = "Another process" if lost.rank is None else self.names[lost.rank]
        progress = self._monitor.progress.get(-1 if lost.rank is None else lost.rank)
        far = "" if progress is None else f" Its last report: {progress.steps} finished steps."
        return PeerLostError(
            f"{name} is lost: {lost.reason}.{far} The unfinished step was not saved; start all processes "
            'again with resume="auto", or use a launcher.',
            lost.rank,
        )

    def late(self) -> PeerLostError:
        """Returns the error for a wait that timed out although all processes are alive."""
        progress = {rank: self._monitor.progress.get(rank, Progress(0, False)) for rank in range(self.size)}
        absent = [rank for rank, (_, in_step) in progress.items() if rank != self.rank and not in_step]
        far = enumerate_names(
            f"{self.names[rank]}: {steps} finished steps, {'in' if in_step else 'outside'} the next"
            for rank, (steps, in_step) in sorted(progress.items(), key=lambda item: item[0] not in absent)
        )
        names = enumerate_names(self.names[rank] for rank in absent) or "Another process"
        return PeerLostError(
            f"{names} did not join an exchange in time, but all of them send heartbeats. Does a callback or "
            f"the data block there? Last reports: {far}. The time limit is step_timeout=.",
            absent[0] if len(absent) == 1 else None,
        )

    # ---- ending

    def announce_stop(self, reason: str) -> None:
        """Sends the others the reason of a normal stop."""
        self._monitor.send(stops=reason[:_LONGEST_REASON])

    def reason_of_stop(self, timeout: float = 2.0) -> str:
        """Returns the reason of another process's normal stop."""
        deadline = time.monotonic() + timeout
        while not self._monitor.stop_reasons and time.monotonic() < deadline:
            time.sleep(0.01)
        named = [
            f"{self.names[rank]}: {reason}" for rank, reason in sorted(self._monitor.stop_reasons.items())
        ]
        return "; ".join(named) or "another process stopped"

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; after a failure, the others stop and report it."""
        if not self._closed:
            self._closed = True
            self._monitor.leave(failure and failure[:_LONGEST_REASON])
            for connection in self._control.values():
                connection.close()

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(None if error is None else describe_error(error))

    @contextlib.contextmanager
    def _reporting_loss(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except (OSError, EOFError, ValueError) as broken:
            # The connection breaks with the process; heartbeats identify it, or a process lost before.
            self.wait_for_lost_peer()
            raise PeerLostError(f"The connection between the processes is broken: {broken}.") from broken


def join_cluster(
    cluster: Cluster,
    start_timeout: float = 600.0,
    peer_timeout: float = 30.0,
    step_timeout: float = math.inf,
    token: str | None = None,
) -> ProcessGroup:
    """Waits until all processes of a cluster have connected.

    Args:
        cluster: the processes.
        start_timeout: the time to wait for all of them, in seconds.
        peer_timeout: the time without a heartbeat, in seconds, after which a process counts as lost.
        step_timeout: the maximum time of an exchange, in seconds.
        token: their shared secret; None: `TOWERPACK_TOKEN` of the environment. Processes that connect
            through a loopback address need none.

    Raises:
        ClusterError: a required token is missing.
        RendezvousError: a process did not connect in time.
    """
    check_times(start_timeout=start_timeout, peer_timeout=peer_timeout, step_timeout=step_timeout)
    names = [f"rank {rank} ({address})" for rank, address in enumerate(cluster.addresses)]
    connections = Connections({}, {}) if cluster.size == 1 else _meet(cluster, names, start_timeout, token)
    _log.info("Rank %d of %d; all processes are connected.", cluster.rank, cluster.size)
    return ProcessGroup(cluster.rank, names, connections, peer_timeout, step_timeout)


def _meet(cluster: Cluster, names: Sequence[str], timeout: float, token: str | None) -> Connections:
    hosts = [split_address(address)[0] for address in cluster.addresses]
    handshake = Handshake(names, cluster.fingerprint, resolve_token(token, hosts))
    host, port = split_address(cluster.addresses[0])
    if not cluster.is_chief:
        return call_chief([host], port, cluster.rank, handshake, timeout)
    # If all processes are on this host, no other host can connect.
    return receive_calls(port, handshake, timeout, host=host if all(map(is_loopback, hosts)) else "")


def check_times(**times: float) -> None:
    """Checks time-outs.

    Raises:
        ValueError: a time-out is not a positive number.
    """
    for name, value in times.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise ValueError(f"{name}={value!r}: expected a number of seconds above 0.")
