"""`TorchDataset`: a flow as a dataset for PyTorch's `DataLoader`."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, StateError
from ...flow._epoch import Epoch, Position
from ...flow._flow_state import position_of
from ...flow._tree_fingerprint import length_setting
from ...operators._shard import ShardData
from .._even_shard import EvenShard

__all__ = ["TorchDataset", "rank_and_world_size"]


def rank_and_world_size(environment: bool = False) -> tuple[int, int]:
    """Returns the rank and the number of processes of `torch.distributed`; 0 and 1 without it.

    Args:
        environment: whether the variables of `torchrun` count before the process group is created.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if environment and "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return 0, 1


@final
class TorchDataset(IterableDataset[Any]):
    """Divides a flow among ranks and workers of `torch.utils.data.DataLoader`, and resumes it.

    Batch in the flow, and set `batch_size=None` in the loader: then an epoch has the same batches in the same
    order for any number of loader workers. (If the loader batches, each datapoint still comes exactly once.)
    The loader converts arrays to tensors. For large arrays, workers of this package in the flow
    (`MultiProcessRunner`) and no loader workers are faster.

    Each rank of `torch.distributed` gets a `ShardData` of the flow; its notes on seeds and on resuming with
    another number of ranks apply here too. Without a seed the flow has seed 0.

    **Epochs.** Without loader workers, or with persistent ones, each pass over the loader is the next epoch.
    Otherwise workers are created from this object again for each pass: call `set_epoch(n)` before it, as with
    `DistributedSampler`. A pass without any datapoint taken does not count.

    **States.** Call `set_epoch(n)` before each pass, and `state_dict(taken=k)` after taking `k` datapoints
    from the loader in this pass. Such a state fits any number of loader workers. Without loader workers
    `state_dict()` needs no argument; the datasets in workers are copies. torchdata's `StatefulDataLoader`
    reads the states of the copies, and needs the same number of workers again.

    **Ranks.** `DistributedDataParallel` waits in each step for all ranks, so it hangs if one has a batch more
    than the others. `even="drop"` drops the last round of datapoints if it does not suffice for all ranks;
    `even="repeat"` fills that round with the first datapoints of the pass, like `DistributedSampler`.

    Args:
        flow: the flow.
        rank: rank of this process; from `torch.distributed` by default.
        world_size: number of processes.
        even: "drop" or "repeat", for the same number of datapoints on each rank; by default each datapoint is
            used once, and a warning is given if the ranks get different numbers.

    Raises:
        ArgumentError: only one of `rank` and `world_size` is set, or they do not describe a rank; `even` has
            another value; or a live flow would have to repeat datapoints.

    Warns:
        UserWarning: `world_size` does not divide the length of the flow, or the length is unknown, and `even`
            is not set.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from towerpack_dataflow import BatchData
        >>> loader = DataLoader(TorchDataset(BatchData([[1], [2], [3], [4]], 2)), batch_size=None)
        >>> [numbers.tolist() for (numbers,) in loader]
        [[1, 2], [3, 4]]
    """

    def __init__(
        self, flow: Any, rank: int | None = None, world_size: int | None = None, even: str | None = None
    ) -> None:
        """Takes the rank from `torch.distributed` by default; reads nothing."""
        if (rank is None) != (world_size is None):
            raise ArgumentError(f"rank={rank} and world_size={world_size}: pass both, or neither")
        if rank is None or world_size is None:
            rank, world_size = rank_and_world_size()
        self._flow = _share_of_rank(flow, rank, world_size, even)
        self._began: tuple[int, int] | None = None  # the start of the last pass in this process
        self._share: ShardData | None = None  # in a worker: its part of the flow
        self._share_begun = False
        # Shared with persistent workers: the number of calls of set_epoch(), and its last argument.
        self._set_epochs = _shared_with_forks([0, 0])
        self._calls_seen = 0
        self._resuming = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the attributes of a pickled dataset; PyTorch shares the memory of one sent to a worker."""
        self.__dict__.update(state)
        if not self._set_epochs.is_shared():
            self._set_epochs = _shared_with_forks(self._set_epochs.tolist())

    def __bool__(self) -> bool:
        """Returns `True`, as for a flow."""
        return True

    def __len__(self) -> int:
        """Returns the number of datapoints of this rank in a pass.

        Raises:
            UnknownLengthError: the length is unknown; it is a `TypeError`.
        """
        return len(self._flow)

    def __iter__(self) -> Iterator[Any]:
        """Prepares the next pass, or its part in a worker; the pass starts with the first datapoint taken."""
        worker = get_worker_info()
        if worker is not None:
            return self._taken_of_share(self._part(worker.id, worker.num_workers))
        self._flow._position = position_of(self._flow).next_pass(self._flow._seed)
        self._began = None
        return self._taken()

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the next pass, or the rest of it if a loaded state is within it.

        Raises:
            ArgumentError: `epoch` is not an integer from 0 up.
        """
        number = arguments.count("epoch", epoch, least=0)
        self._turn_to(number)
        self._began = None
        self._inform_workers(number)

    def state_dict(self, taken: int | None = None) -> dict[str, Any]:
        """Returns the position of the next datapoint of this rank not yet taken, and the seed.

        Args:
            taken: number of datapoints taken from the loader in this pass; required if the loader has
                workers.

        Raises:
            ArgumentError: `taken` is not an integer from 0 up.
        """
        worker = get_worker_info()
        if worker is not None:
            return self._state_in_worker(worker.id, worker.num_workers)
        state = self._flow.state_dict()
        count = 0 if taken is None else arguments.count("taken", taken, least=0)
        if count or (taken is not None and position_of(self._flow).started):
            epoch, index = self._began or (state["epoch"], state["index"])
            state.update(epoch=epoch, index=index + count)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass start where `state` was taken.

        Raises:
            StateError: `state` belongs to another flow, or to a worker of another number of workers.
        """
        own = dict(state)
        place = own.pop("worker", None)
        worker = get_worker_info()
        here = None if worker is None else [worker.id, worker.num_workers]
        if place is not None and list(place) != here:
            raise StateError(
                f"this is the state of worker {place[0]} of {place[1]} of a StatefulDataLoader, but it was "
                f"loaded into {'no worker' if here is None else f'worker {here[0]} of {here[1]}'}; load it "
                "through a StatefulDataLoader with the same number of workers, or use this dataset's "
                "state_dict(taken=...), which fits any number"
            )
        self._flow.load_state_dict(own)
        self._began = None
        position = position_of(self._flow)
        if place is None:
            self._inform_workers(int(position.epoch))
        else:
            self._begin_at(position.index, place[1])
            self._resuming = True

    def _taken(self) -> Iterator[Any]:
        datapoints = iter(self._flow)
        position = position_of(self._flow)
        self._began = int(position.epoch), position.index
        yield from datapoints

    def _turn_to(self, number: int) -> None:
        current = position_of(self._flow)
        if current.started or int(current.epoch) != number:
            seed = self._flow._rooted(0).seed
            self._flow._position = Position(Epoch(number, seed))

    def _inform_workers(self, epoch: int) -> None:
        """Notifies running workers; [1] is written first, since they check [0]."""
        self._set_epochs[1] = epoch
        self._set_epochs[0] += 1

    # In a worker. From the datapoints of its rank from the current position on, the worker takes every
    # `count`-th: the loader reads its workers in turn, so that together they yield the rank's order.

    def _part(self, number: int, count: int) -> ShardData:
        calls, epoch = self._set_epochs.tolist()
        share = self._share
        if calls != self._calls_seen and not self._resuming:
            share = None
            self._turn_to(epoch)
        elif share is not None and self._share_begun:
            self._flow._position = position_of(share).next_pass(None)
            share = None
        if share is None:
            share = self._begin_at(position_of(self._flow).index + number, count)
        self._calls_seen = calls
        self._resuming = False
        return share

    def _begin_at(self, index: int, count: int) -> ShardData:
        self._share = share = self._beginning_at(index, count)
        self._share_begun = False
        return share

    def _beginning_at(self, index: int, count: int) -> ShardData:
        turns, number = divmod(index, count)
        share = ShardData(self._flow, number, count)
        share._seed = self._flow._seed
        share._position = Position(position_of(self._flow).epoch, turns)
        return share

    def _taken_of_share(self, share: ShardData) -> Iterator[Any]:
        self._share_begun = True
        yield from share

    def _state_in_worker(self, number: int, count: int) -> dict[str, Any]:
        share = self._share
        if share is None:
            share = self._beginning_at(position_of(self._flow).index + number, count)
        state = share.state_dict()
        between = self._share_begun and not position_of(share).started
        state["index"] = number if between else share._index + state["index"] * count
        return {**state, "worker": [number, count]}


def _share_of_rank(flow: Any, rank: int, world_size: int, even: str | None) -> ShardData:
    if even is not None:
        return EvenShard(flow, rank, world_size, even=arguments.one_of("even", even, ("drop", "repeat")))
    share = ShardData(flow, rank, world_size)
    length = length_setting(share.ds).get("length")
    if world_size > 1 and (length is None or length % world_size):
        number = "an unknown number of" if length is None else length
        warnings.warn(
            f"{world_size} ranks share {number} datapoints, so some may get one more than others, which "
            'makes DistributedDataParallel wait for ever; set even="drop" or '
            'even="repeat" in TorchDataset for the same number on each rank',
            stacklevel=3,
        )
    return share


def _shared_with_forks(numbers: list[int]) -> torch.Tensor:
    """Returns a tensor shared with forks of this process; it needs no file system for shared memory."""
    memory = mmap.mmap(-1, 8 * len(numbers))
    shared = torch.frombuffer(memory, dtype=torch.int64)
    shared[:] = torch.tensor(numbers)
    return shared
