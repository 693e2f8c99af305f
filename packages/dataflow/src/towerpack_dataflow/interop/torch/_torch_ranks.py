"""The rank of this process, according to PyTorch."""

from __future__ import annotations

import os

import torch

__all__ = ["rank_and_world_size"]


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
