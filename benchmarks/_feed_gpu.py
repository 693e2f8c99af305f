"""Batches on a GPU: `interop.torch.DataLoader(device="cuda")` beside PyTorch's loader with pinned memory.

    python benchmarks/_feed_gpu.py

It needs a CUDA device, PyTorch and towerpack-dataflow, and is therefore no part of `nox -s bench`. Both
loaders halve pictures of 224 x 224 pixels in workers and make batches of 64; the consumer copies a batch to
the GPU, if the loader has not done so, and computes its mean. In the second part it also multiplies matrices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import numpy as np
import torch

from towerpack_dataflow import BatchData, DataFromList, MapData
from towerpack_dataflow.interop.torch import DataLoader

ITEMS, BATCH, EPOCHS, ROUNDS = 1024, 64, 4, 3
PICTURES = np.random.default_rng(0).integers(0, 256, (ITEMS, 3, 224, 224), dtype=np.uint8)

Consume = Callable[[Any], Any]


def halved(number: int) -> dict[str, Any]:
    """Returns an example."""
    return {"image": PICTURES[number] // 2, "label": np.int64(number)}


class Halved(torch.utils.data.Dataset):
    """The same examples for PyTorch's loader."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"image": torch.from_numpy(PICTURES[number] // 2), "label": number}


def ours(workers: int) -> Iterable[Any]:
    """Makes our loader."""
    flow = BatchData(MapData(DataFromList(list(range(ITEMS)), shuffle=True), halved), BATCH)
    return DataLoader(flow, num_workers=workers, device="cuda")


def theirs(workers: int) -> Iterable[Any]:
    """Makes PyTorch's loader."""
    return torch.utils.data.DataLoader(
        Halved(),
        BATCH,
        shuffle=True,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=4,
    )


def mean(batch: Any) -> torch.Tensor:
    """Reads a batch on the GPU."""
    return batch["image"].to("cuda", non_blocking=True).float().mean()


def products(count: int) -> Callable[[], None]:
    """Returns a function that keeps the GPU busy."""
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def compute() -> None:
        for _ in range(count):
            matrix @ matrix

    return compute


def seconds_per_batch(loader: Iterable[Any], consume: Consume) -> float:
    """Returns the median of the epochs but the first."""
    seconds = []
    for _ in range(EPOCHS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for batch in loader:
            consume(batch)
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) * BATCH / ITEMS)
    return median(seconds[1:])


def compared(workers: int, consume: Consume) -> tuple[list[float], list[float]]:
    """Measures both loaders in turn."""
    rounds = [
        (seconds_per_batch(ours(workers), consume), seconds_per_batch(theirs(workers), consume))
        for _ in range(ROUNDS)
    ]
    return [mine for mine, _ in rounds], [other for _, other in rounds]


def beside_computing(count: int) -> None:
    """Prints the time of a step that computes, alone and with both loaders."""
    compute = products(count)

    def step(batch: Any) -> None:
        mean(batch)
        compute()

    steps = range(ITEMS // BATCH)
    alone = [seconds_per_batch(steps, lambda _: compute()) for _ in range(ROUNDS)]
    mine, other = compared(8, step)
    print(
        f"{count} products of 8192 x 8192: alone {in_milliseconds(alone)} ms, with our loader "
        f"{in_milliseconds(mine)}, with torch {in_milliseconds(other)}",
        flush=True,
    )


def in_milliseconds(seconds: list[float]) -> str:
    """Formats the median and the range."""
    low, middle, high = (1e3 * value for value in (min(seconds), median(seconds), max(seconds)))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Prints milliseconds of a batch of 64."""
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {os.cpu_count()} processors")
    for workers in (4, 8, 14):
        mine, other = compared(workers, mean)
        ratio = median(other) / median(mine)
        print(
            f"{workers} workers: ours {in_milliseconds(mine)} ms a batch, torch {in_milliseconds(other)}; "
            f"ratio {ratio:.2f}",
            flush=True,
        )
    for count in (4, 8):
        beside_computing(count)


if __name__ == "__main__":
    main()
