"""The rendezvous of processes, with strangers at the port, and with processes that leave and return."""

import contextlib
import json
import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from towerpack_trainers.distributed import Cluster, ClusterError, RendezvousError
from towerpack_trainers.distributed.cluster import free_addresses
from towerpack_trainers.distributed.group import (
    Connection,
    Handshake,
    ProcessGroup,
    connect,
    join_cluster,
    listen,
)

TOKEN = "a secret of sixteen characters"


def frame(body, magic=b"TWP1", length=None):
    return struct.pack(">4sI", magic, len(body) if length is None else length) + body


@contextlib.contextmanager
def chief(size=2, timeout=8.0, **options):
    """The chief of a cluster, which waits for the others; its addresses, and the future of its group."""
    addresses = free_addresses(size)
    with ThreadPoolExecutor(1) as pool:
        yield addresses, pool.submit(join_cluster, Cluster.of(addresses, 0), timeout, **options)


def call(address):
    """A socket connected to the chief, after waiting for the chief to listen."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((host, int(port)), 5)
        except OSError:
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)


def assert_all_meet(addresses, future, **options):
    """Makes all other processes join, and checks their agreement with the chief."""
    others = range(1, len(addresses))
    with ThreadPoolExecutor(len(addresses)) as pool, contextlib.ExitStack() as left:
        coming = [pool.submit(join_cluster, Cluster.of(addresses, rank), 20, **options) for rank in others]
        groups = [left.enter_context(group.result(30)) for group in (future, *coming)]
        assert list(pool.map(lambda group: group.gather(group.rank), groups)) == [
            list(range(len(addresses)))
        ] * len(groups)
        list(pool.map(ProcessGroup.barrier, groups))


# ---- strangers


def reset(sock):
    """Ends the connection so that the other side's next operation on it fails."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(frame(json.dumps({"rank": 1, "size": 2, "purpose": "control", "cluster": "?"}).encode()))
    sock.close()


STRANGERS = {
    "silent": lambda sock: None,
    "gone at once": lambda sock: sock.close(),
    "a browser": lambda sock: sock.sendall(b"GET / HTTP/1.1\r\n\r\n"),
    "half a header": lambda sock: sock.sendall(b"TWP"),
    "half a message": lambda sock: sock.sendall(frame(b'{"rank": ', length=100)),
    "too deep": lambda sock: sock.sendall(frame(b"[" * 60_000)),
    "reset": reset,
    "too large": lambda sock: sock.sendall(frame(b"x" * 100, length=1 << 29)),
    "another version": lambda sock: sock.sendall(frame(b"{}", magic=b"TWP9")),
    "no object": lambda sock: sock.sendall(frame(b"5")),
    "two at once": lambda sock: sock.sendall(frame(b"{}") * 2),
    "no text": lambda sock: sock.sendall(frame(b"\xff\xfe\x00")),
    "no JSON": lambda sock: sock.sendall(frame(b"rank=1")),
    "odd fields": lambda sock: sock.sendall(frame(b'{"rank": [], "proof": "\\ud800", "purpose": {}}')),
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_strangers_cause_no_delay(stranger):
    with chief() as (addresses, future), contextlib.ExitStack() as sockets:
        for _ in range(3):
            stranger(sockets.enter_context(call(addresses[0])))
        # If the chief waited for each of them, or for ten seconds each, it would time out first.
        assert_all_meet(addresses, future)


def test_slow_callers_do_not_block_the_chief():
    with chief(timeout=1.0) as (addresses, future), call(addresses[0]) as sock:
        over = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                for byte in frame(b'"' + b"x" * 500):
                    sock.sendall(bytes([byte]))
                    if over.wait(0.1):
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with pytest.raises(RendezvousError, match=r"^rank 1 .* did not join within 1 s"):
                future.result(20)
        finally:
            over.set()
            dripping.join()


def test_more_strangers_than_open_files():
    """The callers with the longest silence are dropped."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with chief(timeout=20) as (addresses, future), contextlib.ExitStack() as sockets:
        call(addresses[0]).close()
        first = sockets.enter_context(call(addresses[0]))
        first.recv(1)  # accepted: there is one to drop, however busy the machine is
        used = max(map(int, os.listdir("/proc/self/fd"))) + 20
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
        try:
            with contextlib.suppress(OSError):  # this side has no file left, either
                while True:
                    sockets.enter_context(socket.create_connection(first.getpeername(), 5))
            sockets.close()
            assert_all_meet(addresses, future)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_few_files_for_the_cluster(monkeypatch):
    resource = pytest.importorskip("resource")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    addresses = [f"127.0.0.1:{port}" for port in range(1, min(soft, 60_000) // 2 + 10)]
    with pytest.raises(RendezvousError, match=rf"needs \d+ open files; the limit is {soft}.*ulimit -n"):
        join_cluster(Cluster.of(addresses, 0), 1)


# ---- processes that leave and return


def introduce(addresses, rank, purpose):
    """Sends the first message of a process without waiting for the answer; returns its connection."""
    host, _, port = addresses[0].rpartition(":")
    cluster = Cluster.of(addresses, rank)
    handshake = Handshake([f"rank {k}" for k in range(len(addresses))], cluster.fingerprint)
    call(addresses[0]).close()  # waits until the chief listens
    connection = connect(host, int(port), 5)
    connection.send(handshake.hello(connection.receive(5), rank, purpose))
    return connection


def test_a_caller_that_gave_up_may_try_again():
    with chief() as (addresses, future):
        for purpose in ("control", "heartbeat", "control"):
            introduce(addresses, 1, purpose).close()
        assert_all_meet(addresses, future)


def test_an_accepted_but_silent_caller_has_not_joined():
    with chief(timeout=1.0) as (addresses, future), contextlib.ExitStack() as left:
        for purpose in ("control", "heartbeat"):
            connection = left.enter_context(contextlib.closing(introduce(addresses, 1, purpose)))
            assert connection.receive(5)["welcome"]
        with pytest.raises(RendezvousError, match=r"^rank 1 .* did not join within 1 s"):
            future.result(20)


def test_a_process_that_died_after_joining_may_return():
    with chief(size=3) as (addresses, future):
        for purpose in ("control", "heartbeat"):
            with contextlib.closing(introduce(addresses, 2, purpose)) as connection:
                assert connection.receive(5)["welcome"]
                connection.send("joined")
        assert_all_meet(addresses, future)


@pytest.mark.slow
def test_many_processes_connect_at_once():
    with chief(size=64, timeout=60) as (addresses, future):
        assert_all_meet(addresses, future)


# ---- the token


def test_a_process_with_the_token_may_join():
    with chief(token=TOKEN) as (addresses, future):
        assert_all_meet(addresses, future, token=TOKEN)


def test_the_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("TOWERPACK_TOKEN", TOKEN + "\n")
    with chief() as (addresses, future):
        assert_all_meet(addresses, future, token=TOKEN)


@pytest.mark.parametrize(("chiefs", "other"), [(TOKEN, TOKEN + "!"), (TOKEN, ""), ("", TOKEN)])
def test_another_token_is_refused_without_delay(chiefs, other):
    with chief(token=chiefs) as (addresses, future):
        had = "one" if chiefs else "none"
        with pytest.raises(RendezvousError, match=rf"refused .*token is not the chief's, which has {had}"):
            join_cluster(Cluster.of(addresses, 1), 20, token=other)
        assert_all_meet(addresses, future, token=chiefs)


def test_the_chief_needs_the_token_too():
    """Otherwise a stranger at the chief's address could train with the others."""
    handshake = Handshake(["rank 0", "rank 1"], "test")
    with contextlib.closing(listen(0, "127.0.0.1")) as listener, ThreadPoolExecutor(1) as pool:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        coming = pool.submit(join_cluster, Cluster.of([address, "127.0.0.1:1"], 1), 20, token=TOKEN)
        with contextlib.closing(Connection(listener.accept()[0])) as connection:
            connection.send(challenge := handshake.challenge())
            connection.send(handshake.welcome(challenge, connection.receive(10)))
            with pytest.raises(RendezvousError, match="does not have the token of this cluster"):
                coming.result(20)


def test_something_else_at_the_chiefs_address():
    with contextlib.closing(listen(0, "127.0.0.1")) as listener, ThreadPoolExecutor(1) as pool:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        coming = pool.submit(join_cluster, Cluster.of([address, "127.0.0.1:1"], 1), 1.0)
        listener.settimeout(0.05)
        while not coming.done():
            with (
                contextlib.suppress(TimeoutError),
                contextlib.closing(Connection(listener.accept()[0])) as other,
            ):
                other.send(["no", "challenge"])
        with pytest.raises(RendezvousError, match=r"ended with ValueError: received \['no', .*challenge"):
            coming.result()


@pytest.mark.parametrize("host", ["10.0.0.2", "node7", "0.0.0.0"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_token_is_required_over_a_network(monkeypatch, host, rank):
    monkeypatch.delenv("TOWERPACK_TOKEN", raising=False)
    message = rf"one of them is at '{host}'.*Set TOWERPACK_TOKEN .*same secret.*openssl"
    with pytest.raises(ClusterError, match=message):
        join_cluster(Cluster.of(["127.0.0.1:1", f"{host}:2"], rank), 1)


def test_a_token_that_can_be_guessed():
    with pytest.raises(ClusterError, match="token= has 6 characters; expected at least 16"):
        join_cluster(Cluster.of(["127.0.0.1:1", "127.0.0.1:2"], 0), 1, token="secret")


def test_on_loopback_the_chief_listens_only_there():
    """No other host can call it; another address of this host stands for one."""
    with chief() as (addresses, future):
        call(addresses[0]).close()
        port = int(addresses[0].rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 5)
        assert_all_meet(addresses, future)
