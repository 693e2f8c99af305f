"""The interface by which tensors go from process to process, whatever carries them."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from ..group import ProcessGroup

__all__ = ["Communicator"]


class Communicator(abc.ABC):
    """Adds ops to a graph that exchange tensors between processes, and knows who they are.

    All processes add the same exchanges in the same order. An exchange runs in all processes or waits.

    Attributes:
        group: the processes.
        target: what sessions connect to, as `tf.Session(target)` takes it.
        bucket_size: elements up to which tensors are joined before they are exchanged; larger ones go alone.
    """

    group: ProcessGroup
    target: str = ""
    bucket_size: int = 1 << 24

    @property
    def rank(self) -> int:
        """The number of this process; 0 is the chief."""
        return self.group.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.group.size

    @abc.abstractmethod
    def all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Averages each tensor over all processes.

        Args:
            tensors: of static shapes and equal in all processes but for their values; float16, bfloat16,
                float32 or float64.
        """

    @abc.abstractmethod
    def repeat_all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Repeats the exchange of the latest `all_reduce` with other values.

        Run instead of that one, never with it in one session call.
        """

    @abc.abstractmethod
    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sends each tensor's value in the chief to all processes; also of int32 and int64."""

    def prepare(self, config: tf.ConfigProto) -> tf.ConfigProto:
        """Prepares for sessions; returns their options, changed where the exchange needs it."""
        return config

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; with a failure, the others stop and name it."""
        self.group.close(failure)
