"""Batches from a replay memory, compared with NumPy's time to gather the same bytes, and its checkpoints.

    python benchmarks/replay.py [--smoke]

Each ratio is of one round, in which both are measured in turn. A batch of uniform sampling is observations,
next observations, actions and rewards; fancy indexing and `np.take(out=)` have the indices given, and the
memory draws them. The checkpoint is of a million small frames, all of whose segments but one are sealed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import _rounds
import _verdicts
import numpy as np

from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling, disk_usage

ROUNDS = _rounds.shorter(9)
SCREEN, SMALL, ACTION = ((84, 84), "uint8"), ((8,), "float32"), ((), "int64")
SCREENS = _rounds.shorter(60_000, 3000)
FRAMES = _rounds.shorter(1_000_000, 100_000)
SECONDS = 0.5 if not _rounds.SMOKE else 0.02
TOGETHER = 500  # environments of one call of add
EPISODE = 200


def fill(memory: ReplayBuffer, count: int, frames: np.ndarray) -> float:
    """Adds about the given number of transitions; returns the number per second."""
    added, number, random = 0, 0, np.random.default_rng(0)
    before = frames[:TOGETHER]
    begin = time.perf_counter()
    while added < count:
        number += 1
        after = np.roll(before, 1, axis=0)
        ends = np.full(TOGETHER, number % EPISODE == 0)
        actions, rewards = random.integers(4, size=TOGETHER), random.random(TOGETHER)
        memory.add(before, actions, rewards, ends, ~ends & False, after)
        before, added = after, added + TOGETHER
    return added / (time.perf_counter() - begin)


def per_second(call: Callable[[], object], amount: int) -> float:
    """The rate of a call, in units per second."""
    call()
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < SECONDS:
        call()
        calls += 1
    return amount * calls / elapsed


def uniform(memory: ReplayBuffer, columns: dict[str, np.ndarray], batch_size: int) -> dict[str, list[float]]:
    """Transitions a second of a memory, and of fancy indexing."""
    random = np.random.default_rng(1)
    count = len(columns["reward"])

    def indexing() -> object:
        rows = random_rows[next(turn) % len(random_rows)]
        before = rows - TOGETHER
        frames = columns["frame"]
        return frames[before], frames[rows], columns["action"][rows], columns["reward"][rows]

    random_rows = random.integers(TOGETHER, count, size=(64, batch_size))
    turn = iter(range(10**9))
    subjects = {
        "sample": lambda: per_second(lambda: memory.sample(batch_size), batch_size),
        "indexing": lambda: per_second(indexing, batch_size),
    }
    return _rounds.measure(subjects, ROUNDS)


def columns_like(frames: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Plain arrays of as many rows as a memory has."""
    repeated = np.empty((count, *frames.shape[1:]), frames.dtype)
    for begin in range(0, count, len(frames)):
        repeated[begin : begin + len(frames)] = frames[: count - begin]
    return {"frame": repeated, "action": np.zeros(count, np.int64), "reward": np.zeros(count, np.float32)}


def screens(verdicts: _verdicts.Verdicts) -> None:
    """84x84 frames: single ones, and stacks of four beside `np.take`."""
    frames = np.random.default_rng(0).integers(256, size=(TOGETHER, 84, 84), dtype=np.uint8)
    columns = columns_like(frames, SCREENS)
    memory = ReplayBuffer(SCREEN, ACTION, SCREENS, sampling=UniformSampling(seed=0))
    fill(memory, SCREENS, frames)
    figures = uniform(memory, columns, 256)
    same = _rounds.ratios(figures["sample"], figures["indexing"])
    verdicts.at_least("84x84, batches of 256: uniform sampling / fancy indexing", same, 0.8)
    memory.close()

    memory = ReplayBuffer(SCREEN, ACTION, SCREENS, frame_stack=4, sampling=UniformSampling(seed=0))
    fill(memory, SCREENS, frames)
    same = stacks(memory, columns, 256)
    verdicts.at_least("84x84x4, batches of 256: uniform sampling / np.take(out=)", same, 0.95)
    same = stacks(memory, columns, 32)
    verdicts.untargeted("84x84x4, batches of 32: uniform sampling / np.take(out=)", same)
    memory.close()


def stacks(memory: ReplayBuffer, columns: dict[str, np.ndarray], size: int) -> list[float]:
    """Prints the bytes a second of a memory, `np.take` and memcpy; returns the ratio of the two first."""
    batch = memory.sample(size)
    frames = columns["frame"]
    newest = np.random.default_rng(1).integers(3 * TOGETHER, len(frames) - TOGETHER, size=(64, size, 1))
    before = newest + TOGETHER * np.arange(-3, 1)  # as far apart as the frames of an environment are
    rows = np.stack([before, before + TOGETHER], axis=1).reshape(64, 2, -1)
    turn = iter(range(10**9))
    outs = [part.reshape(-1, 84, 84) for part in (batch.observation, batch.next_observation)]
    source, target = np.ones((2, 2 * size * 4 * 84 * 84), np.uint8)

    def take() -> None:
        number = next(turn) % len(rows)
        for chosen, out in zip(rows[number], outs):
            np.take(frames, chosen, axis=0, out=out, mode="clip")
        np.take(columns["action"], newest[number, :, 0], out=batch.action, mode="clip")
        np.take(columns["reward"], newest[number, :, 0], out=batch.reward, mode="clip")

    amount = len(source)
    subjects = {
        "sample": lambda: per_second(lambda: memory.sample(size, out=batch), amount),
        "take": lambda: per_second(take, amount),
        "memcpy": lambda: per_second(lambda: np.copyto(target, source), amount),
    }
    found = _rounds.measure(subjects, ROUNDS)
    for name, values in found.items():
        speed = _rounds.summary([value / 1e9 for value in values], ".2f")
        print(f"  84x84x4, batches of {size}, {name}: {speed} GB/s")
    return _rounds.ratios(found["sample"], found["take"])


def small_frames(verdicts: _verdicts.Verdicts, place: Path) -> None:
    """Frames of 32 bytes: uniform and prioritised sampling, and a checkpoint."""
    frames = np.random.default_rng(0).random((TOGETHER, 8)).astype(np.float32)
    columns = columns_like(frames, FRAMES)
    memory = ReplayBuffer(SMALL, ACTION, FRAMES, sampling=UniformSampling(seed=0))
    print(f"  added a second, {TOGETHER} environments at a time: {fill(memory, FRAMES, frames):,.0f}")
    for batch_size in (256, 16384):
        figures = uniform(memory, columns, batch_size)
        same = _rounds.ratios(figures["sample"], figures["indexing"])
        verdicts.untargeted(f"32 bytes, batches of {batch_size}: uniform sampling / fancy indexing", same)
    memory.close()

    prioritized = ReplayBuffer(
        SMALL, ACTION, FRAMES, directory=place / "memory", sampling=PrioritizedSampling(seed=0)
    )
    fill(prioritized, FRAMES, frames)
    for batch_size in (32, 256):
        priorities = np.random.default_rng(1).random(batch_size)

        def learn(batch_size: int = batch_size, priorities: np.ndarray = priorities) -> None:
            batch = prioritized.sample(batch_size)
            prioritized.update_priorities(batch.indices, priorities)

        figures = _rounds.measure({"": lambda learn=learn, size=batch_size: per_second(learn, size)}, ROUNDS)
        what = f"batches of {batch_size}: prioritised sampling and update, transitions/s"
        if batch_size == 256:
            verdicts.at_least(what, figures[""], 300_000, ",.0f")
        else:
            verdicts.untargeted(what, figures[""], ",.0f")
    checkpoints(verdicts, prioritized, place)


def checkpoints(verdicts: _verdicts.Verdicts, memory: ReplayBuffer, place: Path) -> None:
    """Seconds of a state and the files that belong to it, flushed to the disk."""
    seconds = []
    for number in range(ROUNDS):
        begin = time.perf_counter()
        memory.state_dict()
        memory.link_into(place / "kept" / str(number))
        seconds.append(time.perf_counter() - begin)
    verdicts.at_most(f"checkpoint of {FRAMES:,} frames, s", seconds, 0.5, ".3f")
    print(f"  the disk that {ROUNDS} of them hold: {disk_usage(place / 'kept') / 1e6:.0f} MB")
    memory.close()


def main() -> None:
    """Runs all parts."""
    print(_rounds.heading("numpy", "towerpack-dataflow"))
    verdicts = _verdicts.Verdicts()
    screens(verdicts)
    place = Path(tempfile.mkdtemp())
    try:
        small_frames(verdicts, place)
    finally:
        shutil.rmtree(place)
    verdicts.leave()


if __name__ == "__main__":
    main()
