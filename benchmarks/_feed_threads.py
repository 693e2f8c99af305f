"""Workers as threads and as processes on a free-threaded build of Python.

    python3.14t benchmarks/_feed_threads.py [WORKERS …]

It needs such an interpreter, towerpack-dataflow and Pillow, and is therefore no part of `nox -s bench`. Three
flows make batches of 64 in workers: pictures decoded by Pillow, words counted by Python code, and arrays that
are only copied. Each row has batches per second of both kinds of workers, measured in turn after a first
epoch: the median of the rounds, and their range.
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from towerpack_dataflow import BatchData, DataFromList, MapData, MultiProcessRunner

BATCH, ROUNDS = 64, 5
BEFORE, SECONDS = 1.0, 2.0  # what workers have made ahead is consumed before
METHODS = ("thread", "spawn")
PIXELS = np.random.default_rng(0).integers(0, 256, (16, 12, 12, 3), dtype=np.uint8)
WORDS = " ".join(f"word{number * number % 997}" for number in range(600))


def jpeg(number: int) -> bytes:
    """Returns a file of 375 x 500 pixels, about the size of those of ImageNet."""
    file = io.BytesIO()
    Image.fromarray(PIXELS[number % 16]).resize((500, 375)).save(file, "jpeg", quality=90)
    return file.getvalue()


FILES = [jpeg(number) for number in range(16)]


def decoded(number: int) -> list[Any]:
    """Returns a picture of 224 x 224 pixels."""
    picture = Image.open(io.BytesIO(FILES[number % 16])).convert("RGB").resize((224, 224))
    return [np.asarray(picture), number]


def counted(number: int) -> list[Any]:
    """Returns the counts of 64 words."""
    counts = Counter(word for word in WORDS.split() if int(word[4:]) % 7 != number % 7)
    return [np.array([counts[f"word{place}"] for place in range(64)]), number]


def copied(number: int) -> list[Any]:
    """Returns an array of 600 KB."""
    return [np.full((224, 224, 3), number, np.float32), number]


def rates(make: Callable[[int], list[Any]], workers: int) -> dict[str, list[float]]:
    """Returns batches per second of each round, by the kind of workers."""
    flow = BatchData(MapData(DataFromList(list(range(1_000_000))), make), BATCH)
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(ROUNDS):
        for method, measured in found.items():
            with MultiProcessRunner(flow, num_workers=workers, start_method=method) as runner:
                measured.append(rate(runner))
    return found


def rate(batches: Iterable[Any]) -> float:
    """Returns the batches per second."""
    stream = iter(batches)
    next(stream)
    consumed(stream, BEFORE)
    return consumed(stream, SECONDS)


def consumed(stream: Iterator[Any], seconds: float) -> float:
    """Consumes batches for some seconds, and returns those per second."""
    begin, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds:
        next(stream)
        count += 1
    return count / passed


def main() -> None:
    """Prints a row for each flow and number of workers."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with' if locked else 'without'} a global lock\n")
    print("| flow | workers | threads, batches/s | processes, batches/s | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for make in (decoded, counted, copied):
        for workers in map(int, sys.argv[1:] or ["2"]):
            found = rates(make, workers)
            cells = [f"{median(found[m]):.0f} ({min(found[m]):.0f} to {max(found[m]):.0f})" for m in METHODS]
            ratio = median(found["thread"]) / median(found["spawn"])
            print(f"| {make.__name__} | {workers} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
