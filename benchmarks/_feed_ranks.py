"""Eight ranks on one host: each a process with a loader of its own, over the same records.

python benchmarks/_feed_ranks.py SUBJECT RANK          prints the records that a rank takes, as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import _rounds
import numpy as np
from _feed import our_loader, subject
from _loaders import Figures, Run

RANKS, BATCH = 8, 16
RECORDS = RANKS * BATCH * _rounds.shorter(500, 2)


def numbered(index: int) -> list[np.ndarray]:
    """A record with its number."""
    return [np.full(64, index), np.zeros(256, np.float32)]


def ours(rank: int) -> Iterable[Any]:
    """The batches of a rank."""
    from towerpack_dataflow import BatchData, DataFromList, MapData

    flow = BatchData(MapData(DataFromList(range(RECORDS)), numbered), BATCH)
    return our_loader(flow, num_workers=1, rank=rank, world_size=RANKS)


def torch(rank: int) -> Iterable[Any]:
    """The same by PyTorch."""
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    class Records:
        def __len__(self) -> int:
            return RECORDS

        def __getitem__(self, index: int) -> Any:
            return numbered(index)

    sampler = DistributedSampler(Records(), RANKS, rank)
    return DataLoader(Records(), BATCH, sampler=sampler, num_workers=1, multiprocessing_context="fork")


def one_epoch(make: str) -> Run:
    """Measures an epoch of all ranks, each from its start."""

    def run() -> Figures:
        processes = [
            subprocess.Popen([sys.executable, __file__, make, str(rank)], stdout=subprocess.PIPE)
            for rank in range(RANKS)
        ]
        shares = [json.loads(process.communicate()[0]) for process in processes]
        assert not any(process.returncode for process in processes)
        taken = np.bincount([number for share in shares for number in share["numbers"]], minlength=RECORDS)
        counts = [len(share["numbers"]) for share in shares]
        seconds = [share["seconds"] for share in shares]
        return {
            "seconds": max(seconds),
            "not_once": int(np.count_nonzero(taken != 1)),
            "uneven": max(counts) / min(counts) - 1,
            "uneven_time": max(seconds) / min(seconds) - 1,
        }

    return run


subject("F", "towerpack")(partial(one_epoch, "ours"))
subject("F", "torch")(partial(one_epoch, "torch"))


def main() -> None:
    """Takes the batches of one rank."""
    make, rank = sys.argv[1:]
    loader = {"ours": ours, "torch": torch}[make](int(rank))
    numbers: list[int] = []
    begin = time.perf_counter()
    for batch in loader:
        numbers += np.asarray(batch[0])[:, 0].tolist()
    print(json.dumps({"numbers": numbers, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
