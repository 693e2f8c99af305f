"""The cost of many processes for the chief: the time until all have joined, and the heartbeats afterwards.

    python benchmarks/many_processes.py [--smoke] [PROCESSES]

The others are simulated in one other process, by a selector over their connections: each joins as a process
of a training does, by two connections and with a token, and then sends a heartbeat with its progress once a
second and reads the chief's. Over loopback, where a round trip takes no time and messages are all there is.
"""

from __future__ import annotations

import os
import resource
import selectors
import subprocess
import sys
import time

import _rounds
import _verdicts

from towerpack_trainers.distributed import Cluster
from towerpack_trainers.distributed.cluster import make_token
from towerpack_trainers.distributed.group import Connection, Handshake, connect, encode, join_cluster, listen

PROCESSES = _rounds.shorter(512, 32)
ROUNDS, MEASURED_SECONDS = _rounds.shorter(5), float(_rounds.shorter(10, 2))
PURPOSES = ("control", "heartbeat")


def cluster_of(port: int, size: int, rank: int) -> Cluster:
    """The cluster, in which only the chief's address is called."""
    others = [f"127.0.0.1:{number}" for number in range(1, size)]
    return Cluster.of([f"127.0.0.1:{port}", *others], rank)


# ---- the other processes


class Others:
    """All processes but the chief."""

    def __init__(self, port: int, size: int, token: str) -> None:
        self.port, self.size = port, size
        names = [f"rank {rank}" for rank in range(size)]
        self.handshake = Handshake(names, cluster_of(port, size, 0).fingerprint, token)
        self.selector = selectors.DefaultSelector()
        self.heartbeats: dict[int, Connection] = {}

    def join(self) -> None:
        """Joins as all of them, each by one connection after the other; returns when the chief has all."""
        left = self.size - 1
        while True:  # until the chief listens
            try:
                connect("127.0.0.1", self.port, 20).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.005)
        for rank in range(1, self.size):
            self._call(rank, PURPOSES[0])
        while left:
            for key, _ in self.selector.select():
                for message in key.fileobj.receive_pending():
                    left -= self._answer(key, message)

    def _call(self, rank: int, purpose: str) -> None:
        connection = connect("127.0.0.1", self.port, 20)
        self.selector.register(connection, selectors.EVENT_READ, (rank, purpose))

    def _answer(self, key: selectors.SelectorKey, message: object) -> bool:
        (rank, purpose), connection = key.data, key.fileobj
        if message == "all are here":
            return True
        if "challenge" in message:
            connection.post(encode(self.handshake.hello(message, rank, purpose)))
            return False
        if "welcome" not in message:
            sys.exit(f"rank {rank}: {message}")
        connection.post(encode(self.handshake.JOINED))
        if purpose == "control":
            self._call(rank, "heartbeat")
        else:
            self.heartbeats[rank] = connection
        return False

    def live(self) -> None:
        """Sends heartbeats for all of them, evenly over each second, until the chief leaves."""
        ranks = sorted(self.heartbeats)
        begin, sent = time.monotonic(), 0
        while self.heartbeats:
            due = int((time.monotonic() - begin) * len(ranks))
            for number in range(sent, due):
                rank = ranks[number % len(ranks)]
                if rank in self.heartbeats:
                    progress = [[rank, number // len(ranks), True]]
                    self.heartbeats[rank].post(encode({"from": rank, "progress": progress}))
            sent = due
            self._read(0.5 / len(ranks))

    def _read(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            try:
                key.fileobj.receive_pending()
            except (EOFError, OSError):
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.heartbeats.pop(key.data[0], None)


def run_others(port: int, size: int, token: str) -> None:
    """The other process of this benchmark."""
    allow_files(size)
    others = Others(port, size, token)
    print("ready", flush=True)
    sys.stdin.readline()
    others.join()
    others.live()


# ---- the chief


def allow_files(size: int) -> None:
    """Raises the limit of open files to the number of connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * size + 256, most), most))


def measure(size: int) -> tuple[float, float]:
    """Seconds until all have joined, and the share of a core that the chief's process takes afterwards."""
    with listen(0, "127.0.0.1") as free:
        port = free.getsockname()[1]
    token = make_token()
    command = [sys.executable, __file__, "others", str(port), str(size)]
    environment = {**os.environ, "TOWERPACK_TOKEN": token}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as others:
        assert others.stdout is not None and others.stdin is not None
        others.stdout.readline()
        others.stdin.write("go\n")
        others.stdin.flush()
        begin = time.perf_counter()
        with join_cluster(cluster_of(port, size, 0), 60, 5, token=token) as group:
            joined = time.perf_counter() - begin
            time.sleep(2)
            before, begin = time.process_time(), time.perf_counter()
            time.sleep(MEASURED_SECONDS)
            share = (time.process_time() - before) / (time.perf_counter() - begin)
            group.check()
            steps = [progress.steps for progress in group.progress.values()]
        assert len(steps) == size - 1 and min(steps) >= MEASURED_SECONDS, "heartbeats are missing"
    return joined, share


def main() -> None:
    """Measures, prints and judges."""
    if sys.argv[1:2] == ["others"]:
        run_others(int(sys.argv[2]), int(sys.argv[3]), os.environ["TOWERPACK_TOKEN"])
        return
    size = int(sys.argv[1]) if sys.argv[1:] else PROCESSES
    allow_files(size)
    print(_rounds.heading("tensorflow"))
    print(f"{size} processes over loopback, medians of {ROUNDS} rounds (range)")
    joined, shares = map(list, zip(*(measure(size) for _ in range(ROUNDS))))
    verdicts = _verdicts.Verdicts()
    verdicts.at_most("seconds until all have joined", joined, 5)
    percents = [100 * share for share in shares]
    verdicts.at_most("% of a core for a heartbeat a second of each, in the chief's process", percents, 5)
    verdicts.leave()


if __name__ == "__main__":
    main()
