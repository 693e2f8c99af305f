"""Large batches from another process over loopback TCP, compared with plain ZeroMQ for the same bytes.

    python benchmarks/remote.py [--smoke]

Senders run in processes of their own. Both send one array again and again, which is read-only, since a flow's
sender takes a copy of one that may still be written to; both readers take frames without a copy. Each ratio
is of one round, in which both are measured in turn.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import _rounds
import _verdicts
import numpy as np
import zmq

from towerpack_dataflow.remote import RemoteDataZMQ

ROUNDS = _rounds.shorter(7)
BATCHES = _rounds.shorter(150, 5)
SHAPE = (256, 224, 224, 3) if not _rounds.SMOKE else (4, 224, 224, 3)
RECORDS = _rounds.shorter(20_000, 200)

FLOW = """
import sys, numpy as np
from towerpack_dataflow.remote import DataFlowSender
shape = eval(sys.argv[1])
images = np.ones(shape, np.uint8)
images.setflags(write=False)
batch = [images[:], np.zeros(shape[0], np.int64)]
def batches():
    while True:
        yield batch
with DataFlowSender(batches(), "tcp://127.0.0.1:*") as sender:
    print(sender.address, flush=True)
    sender.run()
"""
RAW = """
import sys, numpy as np, zmq
shape = eval(sys.argv[1])
socket = zmq.Context().socket(zmq.PUSH)
socket.setsockopt(zmq.SNDHWM, 4)
socket.bind("tcp://127.0.0.1:*")
print(socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\\0").decode(), flush=True)
images, labels = np.ones(shape, np.uint8), np.zeros(shape[0], np.int64)
while True:
    socket.send_multipart([images.data, labels.data], copy=False)
"""


@contextmanager
def sender(program: str, shape: tuple[int, ...]) -> Iterator[str]:
    """Starts a program that sends; yields its address."""
    command = [sys.executable, "-c", program, repr(shape)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def flow_per_second(shape: tuple[int, ...], count: int) -> float:
    """Batches a second through `RemoteDataZMQ`."""
    with sender(FLOW, shape) as address:
        datapoints = iter(RemoteDataZMQ(address))
        rate = timed(lambda: next(datapoints), count)
        datapoints.close()  # type: ignore[attr-defined]
    return rate


def raw_per_second(shape: tuple[int, ...], count: int) -> float:
    """Batches a second through a pair of sockets."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket, sender(RAW, shape) as address:
        socket.setsockopt(zmq.RCVHWM, 4)
        socket.connect(address)

        def take() -> None:
            images, labels = socket.recv_multipart(copy=False)
            np.frombuffer(images.buffer, np.uint8).reshape(shape)
            np.frombuffer(labels.buffer, np.uint8).view(np.int64)

        return timed(take, count)


def timed(take: object, count: int) -> float:
    """Calls a second, after a few that warm up."""
    for _ in range(3):
        take()  # type: ignore[operator]
    begin = time.perf_counter()
    for _ in range(count):
        take()  # type: ignore[operator]
    return count / (time.perf_counter() - begin)


def main() -> None:
    """Measures large batches, with a target, and small datapoints, without."""
    verdicts = _verdicts.Verdicts()
    for shape, count, what in (
        (SHAPE, BATCHES, "batches of 38.5 MB over loopback tcp"),
        ((1,), RECORDS, "datapoints of 9 bytes over loopback tcp"),
    ):
        subjects = {
            "RemoteDataZMQ": lambda shape=shape, count=count: flow_per_second(shape, count),
            "raw ZeroMQ": lambda shape=shape, count=count: raw_per_second(shape, count),
        }
        found = _rounds.measure(subjects, ROUNDS)
        for name, values in found.items():
            print(f"  {what}, {name}: {_rounds.summary(values, ',.1f')} a second")
        same = _rounds.ratios(found["RemoteDataZMQ"], found["raw ZeroMQ"])
        if count == BATCHES:
            verdicts.at_least(f"{what}: RemoteDataZMQ / raw ZeroMQ", same, 0.8)
        else:
            verdicts.untargeted(f"{what}: RemoteDataZMQ / raw ZeroMQ", same)
    verdicts.leave()


if __name__ == "__main__":
    main()
