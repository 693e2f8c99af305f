"""Processes that connect, agree, and detect lost processes. Threads stand in for processes here."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from towerpack_trainers.distributed import Cluster, PeerLostError, ProcessGroup, RendezvousError
from towerpack_trainers.distributed.cluster import free_addresses
from towerpack_trainers.distributed.group import (
    Connection,
    Connections,
    Handshake,
    call_chief,
    encode,
    join_cluster,
    listen,
    receive_calls,
)

QUICK = 1.0  # seconds of silence after which a process counts as lost
PATIENT = 30.0  # the same for tests without silence: a busy machine must not cause it


class Wire:
    """One process's end of a connection, which the process loses when it dies."""

    def __init__(self, connection, dead):
        self.connection, self.dead = connection, dead
        self.reads, self.works = True, True

    def fileno(self):
        return self.connection.fileno()

    def send(self, message, timeout=None):
        if not self.dead:  # a dead process does not report the end of one wire on another
            self.connection.send(message, timeout)

    @property
    def unsent(self):
        return self.connection.unsent

    def post(self, frame=b""):
        if not self.works:
            raise ZeroDivisionError("broken")
        if not self.dead:
            self.connection.post(frame)

    def receive(self, timeout=None):
        return self.connection.receive(timeout)

    def receive_pending(self):
        return self.connection.receive_pending() if self.reads else []

    def close(self):
        self.connection.close()


class Process:
    """A group, and the wires that are cut when the process is killed."""

    def __init__(self, names, rank, found, peer_timeout):
        self._dead = []
        self._wires = Connections(
            *(
                {other: Wire(connection, self._dead) for other, connection in connections.items()}
                for connections in (found.control, found.heartbeat)
            )
        )
        self.group = ProcessGroup(rank, names, self._wires, peer_timeout)

    def send_heartbeat(self, rank, message):
        """Sends arbitrary data instead of heartbeats."""
        self._wires.heartbeat[rank].connection.post(encode(message))

    def stop_reading(self):
        for wire in self._wires.heartbeat.values():
            wire.reads = False

    def break_heartbeats(self):
        for wire in self._wires.heartbeat.values():
            wire.works = False

    def die(self):
        """Closes the connections, as the kernel does for a killed process."""
        self._dead.append(True)
        self._wires.close()


@contextlib.contextmanager
def processes(size, peer_timeout=PATIENT):
    """The connected processes of all ranks."""
    addresses = free_addresses(size)
    names = [f"rank {rank} ({address})" for rank, address in enumerate(addresses)]
    handshake = Handshake(names, "test")
    port = int(addresses[0].rpartition(":")[2])

    def meet(rank):
        if rank == 0:
            return receive_calls(port, handshake, 20)
        return call_chief(["127.0.0.1"], port, rank, handshake, 20)

    with ThreadPoolExecutor(size) as pool:
        met = list(pool.map(meet, range(size)))
    started = [Process(names, rank, found, peer_timeout) for rank, found in enumerate(met)]
    try:
        yield started
    finally:
        for process in started:
            process.group.close()


@contextlib.contextmanager
def joined(size, peer_timeout=PATIENT):
    """The groups of all ranks of a cluster."""
    addresses = free_addresses(size)
    with ThreadPoolExecutor(size) as pool:
        groups = list(
            pool.map(lambda rank: join_cluster(Cluster.of(addresses, rank), 20, peer_timeout), range(size))
        )
    try:
        yield groups
    finally:
        for group in groups:
            group.close()


def together(groups, call):
    """The results of a call that all ranks make at the same time."""
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(call, groups))


def wait_for_error(group):
    with pytest.raises(PeerLostError) as caught:
        group.wait_for_lost_peer()
    return caught.value


def test_gather_share_and_barrier():
    with joined(3) as groups:
        assert together(groups, lambda group: group.gather(group.rank * 10)) == [[0, 10, 20]] * 3
        assert together(groups, lambda group: group.share({"of": group.rank})) == [{"of": 0}] * 3
        together(groups, ProcessGroup.barrier)


def test_large_messages():
    with joined(2) as groups:
        long = "x" * 3_000_000
        assert together(groups, lambda group: group.share(long if group.is_chief else None)) == [long] * 2


def test_a_group_of_one():
    with joined(1) as [group]:
        assert (group.gather(5), group.share(6), group.size) == ([5], 6, 1)
        group.barrier()
        group.check()


def test_a_dead_process_is_named_by_all_others():
    with processes(3) as [chief, other, third]:
        time_of_death = time.monotonic()
        third.die()
        errors = [wait_for_error(process.group) for process in (chief, other)]
        assert [error.rank for error in errors] == [2, 2]
        assert all(
            "rank 2 (127.0.0.1:" in str(error) and "its process ended" in str(error) for error in errors
        )
        assert time.monotonic() - time_of_death < 10  # long before its silence would have counted


def test_a_dead_chief_is_named_by_all_others():
    with processes(3) as [chief, *others]:
        chief.die()
        assert [wait_for_error(process.group).rank for process in others] == [0, 0]


def test_waiting_for_a_dead_process_is_interrupted():
    with processes(3) as [chief, other, third], ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(process.group.barrier) for process in (chief, other)]
        third.die()
        for wait in waiting:
            with pytest.raises(PeerLostError, match="rank 2"):
                wait.result(20)


def test_a_failure_is_reported_with_its_reason():
    with joined(3) as groups:
        groups[1].close("ValueError: a bad image")
        for group in (groups[0], groups[2]):
            error = wait_for_error(group)
            assert error.rank == 1
            assert "it failed: ValueError: a bad image" in str(error)


def test_leaving_is_not_a_failure():
    with joined(3, QUICK) as groups:
        together(groups, ProcessGroup.barrier)
        groups[2].close()
        together(groups[:2], lambda group: group.wait_for_lost_peer(QUICK * 1.5))
        together(groups[:2], ProcessGroup.check)


def test_a_silent_process_is_lost():
    """A chief that accepts calls and then says nothing more, as a stopped process."""
    addresses = free_addresses(1)
    with contextlib.closing(listen(int(addresses[0].split(":")[1]))) as listener:
        connections, handshake = [], Handshake(["rank 0", "rank 1"], "test")

        def answer():
            for _ in range(2):
                connection = Connection(listener.accept()[0])
                connection.send(challenge := handshake.challenge())
                connection.send(handshake.welcome(challenge, connection.receive(10)))
                connections.append(connection)
            connections[0].send("all are here")

        thread = threading.Thread(target=answer)
        thread.start()
        cluster = Cluster.of([addresses[0], "127.0.0.1:1"], 1)
        with join_cluster(cluster, 20, QUICK) as group:
            error = wait_for_error(group)
            assert error.rank == 0
            assert "it sent no heartbeat for 1 s" in str(error)
        thread.join()
        for connection in connections:
            connection.close()


def test_the_first_loss_counts():
    with processes(3) as [chief, other, third]:
        other.group.close("KeyError: 'first'")
        wait_for_error(chief.group)
        third.die()
        assert "KeyError: 'first'" in str(chief.group.error())


def test_a_block_is_interrupted_while_it_runs_and_not_after():
    with processes(2) as [chief, other]:
        cancelled = threading.Event()
        with pytest.raises(PeerLostError, match="rank 1"), chief.group.interruptible(3, cancelled.set):
            other.die()
            assert cancelled.wait(20)
        cancelled.clear()
        with pytest.raises(PeerLostError, match="rank 1"), chief.group.interruptible(4, cancelled.set):
            raise AssertionError("a lost process must be noticed before the block")
        assert not cancelled.is_set()


def test_an_absent_process_is_named_with_its_progress():
    with joined(3) as groups, contextlib.ExitStack() as steps:
        with groups[1].interruptible(40, list):
            pass  # 41 steps are finished now
        for group in (groups[0], groups[2]):
            steps.enter_context(group.interruptible(41, list))
        deadline = time.monotonic() + 10
        while str(groups[2].late()).count("41 finished steps") < 3 and time.monotonic() < deadline:
            with contextlib.suppress(PeerLostError):
                groups[2].wait_for_lost_peer(0.05)
        error = groups[2].late()
        assert error.rank == 1
        assert str(error).startswith("rank 1 (127.0.0.1:")
        assert str(error).count("41 finished steps") == 3


def test_a_block_that_takes_too_long_is_interrupted():
    with join_cluster(Cluster.of(["a:1"], 0), 1, QUICK, step_timeout=0.3) as group:
        cancelled = threading.Event()
        with (
            pytest.raises(PeerLostError, match="did not join an exchange in time"),
            group.interruptible(3, cancelled.set),
        ):
            assert cancelled.wait(20)


def test_a_cancelled_block_names_the_lost_process():
    """Regardless of its error: a session closed during a step raises various errors."""
    with processes(2) as [chief, other]:
        cancelled, broken = threading.Event(), RuntimeError("Session is closed.")
        with (
            pytest.raises(PeerLostError, match=r"rank 1 .* it failed: KeyError") as caught,
            chief.group.interruptible(3, cancelled.set),
        ):
            other.group.close("KeyError: 'a'")
            assert cancelled.wait(20)
            raise broken
        assert caught.value.__cause__ is broken


def test_an_error_of_a_block_without_cancellation_is_unchanged():
    with processes(2) as [chief, _], pytest.raises(KeyError), chief.group.interruptible(3, list):
        raise KeyError("own")


def test_a_failed_cancellation_does_not_end_heartbeats():
    def fail():
        raise OSError("it cannot be cancelled")

    with (
        processes(3) as [chief, other, third],
        pytest.raises(PeerLostError, match="rank 2"),
        chief.group.interruptible(3, fail),
    ):
        third.die()
        wait_for_error(other.group)  # reported by the chief
        wait_for_error(chief.group)


# ---- invalid heartbeats


DAMAGED = {
    "a number": 5,
    "a list": [],
    "nothing": None,
    "progress": {"progress": 5},
    "a step": {"progress": [[2, "many", True]]},
    "a rank": {"progress": [[7, 1, True]]},
    "a rank that is none": {"progress": [[{}, 1, True]]},
    "too large": {"stops": "x" * 100_000},
}


@pytest.mark.parametrize("message", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("sender", [0, 1])
def test_invalid_heartbeats_end_their_sender(sender, message):
    with processes(3) as started:
        receiver = 1 - sender
        started[sender].send_heartbeat(receiver, message)
        error = wait_for_error(started[receiver].group)
        assert error.rank == sender
        assert "it sent an invalid heartbeat: " in str(error)
        if receiver == 0:  # its thread continues, and reports to the others
            assert wait_for_error(started[2].group).rank == 1


def test_the_end_of_the_thread_is_reported():
    """Heartbeats are no longer read, so the training must not wait for one."""
    with processes(2) as [chief, other]:
        chief.break_heartbeats()
        error = wait_for_error(chief.group)
        assert "heartbeat thread of this process failed (ZeroDivisionError: broken)" in str(error)
        assert wait_for_error(other.group).rank == 0


def test_a_process_that_does_not_read_delays_no_other():
    """Its connection fills up; then it misses heartbeats, and the others do not."""
    with processes(3) as [chief, other, third]:
        third.stop_reading()
        for number in range(5000):
            chief.group.announce_stop(f"{number} {'x' * 900}")
        other.group.announce_stop("the others go on")
        assert "the others go on" in chief.group.reason_of_stop(10)
        third.die()
        assert [wait_for_error(process.group).rank for process in (chief, other)] == [2, 2]


def test_reasons_to_stop_are_reported():
    with joined(3) as groups:
        groups[1].announce_stop("enough")
        assert "rank 1" in groups[2].reason_of_stop(10)
        assert groups[0].reason_of_stop(10).endswith(": enough")


# ---- the rendezvous


def test_missing_processes_are_named():
    addresses = free_addresses(3)
    with ThreadPoolExecutor(2) as pool:
        came = [pool.submit(join_cluster, Cluster.of(addresses, rank), 1.5) for rank in (0, 1)]
        with pytest.raises(RendezvousError, match=rf"^rank 2 \({addresses[2]}\) did not join within 1.5 s"):
            came[0].result(30)
        with pytest.raises(RendezvousError, match="gave up before all processes had joined"):
            came[1].result(30)


def test_a_missing_chief_is_named():
    addresses = free_addresses(2)
    with pytest.raises(
        RendezvousError, match=rf"rank 0 \({addresses[0]}\) could not be reached within 0.5 s"
    ):
        join_cluster(Cluster.of(addresses, 1), 0.5)


def test_another_cluster_is_refused():
    one, two, three = free_addresses(3)
    with ThreadPoolExecutor(2) as pool:
        chief = pool.submit(join_cluster, Cluster.of([one, two], 0), 2)
        with pytest.raises(
            RendezvousError, match="it has another cluster: 3 processes instead of the chief's 2"
        ):
            join_cluster(Cluster.of([one, two, three], 1), 10)
        with pytest.raises(RendezvousError, match="did not join"):
            chief.result(30)


def test_one_rank_twice_is_refused():
    addresses = free_addresses(3)
    with ThreadPoolExecutor(3) as pool:
        came = [pool.submit(join_cluster, Cluster.of(addresses, rank), 2) for rank in (0, 1, 1)]
        errors = [str(future.exception(30)) for future in came]
    assert any("another process has already joined as rank 1" in error for error in errors)


def test_a_taken_port_is_named():
    with contextlib.closing(listen(0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RendezvousError, match=rf"cannot listen on port {port}"):
            join_cluster(Cluster.of([f"127.0.0.1:{port}", "127.0.0.1:1"], 0), 0.3)


def test_time_outs_are_checked():
    with pytest.raises(ValueError, match="peer_timeout=0: expected a number of seconds above 0"):
        join_cluster(Cluster.of(["a:1"], 0), 1, 0)
