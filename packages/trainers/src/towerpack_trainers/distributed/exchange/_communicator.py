"""The interface for sending tensors between processes, independent of the transport."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from ..group import ProcessGroup

__all__ = ["Communicator"]


class Communicator(abc.ABC):
    """Adds ops to a graph that exchange tensors between the processes of a group.

    All processes must add the same exchanges in the same order. An exchange runs in all processes or waits.

    Attributes:
        group: the processes.
        target: the target of sessions, as for `tf.Session(target)`.
        bucket_size: the number of elements up to which tensors are joined before an exchange; larger tensors
            are sent separately.
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
            tensors: tensors with static shapes that are equal in all processes; float16, bfloat16, float32 or
                float64.
        """

    @abc.abstractmethod
    def repeat_all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Repeats the exchange of the latest `all_reduce` with other values.

        Run it instead of that one, never in the same session call.
        """

    @abc.abstractmethod
    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sends each tensor's value in the chief to all processes; also supports int32 and int64."""

    def prepare(self, config: tf.ConfigProto) -> tf.ConfigProto:
        """Prepares for sessions; returns the session options, changed as the exchange requires."""
        return config

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; after a failure, the others stop and report it."""
        self.group.close(failure)
