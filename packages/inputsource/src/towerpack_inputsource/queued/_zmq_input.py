"""Input from other machines: a queue filled with datapoints from their senders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._source import check_at_least
from ..specs import with_batch_size
from ._flow_queue_input import FlowQueueInput

__all__ = ["ZMQInput"]


@final
class ZMQInput(FlowQueueInput):
    """Prefetches datapoints sent by `send_dataflow_zmq` on other machines or processes into a queue.

    It is a `QueueInput` over a `towerpack_dataflow.remote.RemoteDataZMQ`; see its docstring for the
    guarantees: each datapoint goes to exactly one receiver. Like any live flow, it has no position: a resumed
    run uses the datapoints that the senders send then. Needs the extra `[remote]`.

    Args:
        addrs: the addresses of one or more senders: `"tcp://192.168.0.5:5555"`.
        hwm: the maximum number of datapoints per sender that are buffered here or in transit.
        capacity: number of datapoints in the queue.
        infinite: continue with the senders' next pass. Otherwise the run ends at the end of a pass.
        batch_size: length of the first axis of all components, if it is the same in all batches; it then
            becomes part of the tensors' shapes.
        options: further arguments of `RemoteDataZMQ`: `prefetch_bytes`, `max_bytes`, `timeout`, `keys`.

    Raises:
        ImportError: pyzmq or msgpack is not installed; the message names the extra.
        ValueError: an address is invalid, or the capacity is below 1.

    Example:
        >>> source = ZMQInput(["tcp://192.168.0.5:5555", "tcp://192.168.0.6:5555"], batch_size=256)
        >>> source.size() is None
        True
    """

    def __init__(
        self,
        addrs: str | Sequence[str],
        hwm: int = 50,
        *,
        capacity: int = 5,
        infinite: bool = True,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        from towerpack_dataflow.remote import RemoteDataZMQ

        check_at_least(1, "capacity", capacity, "the number of datapoints to prefetch")
        if batch_size is not None:
            check_at_least(1, "batch_size", batch_size, "the length of the first axis")
        super().__init__(RemoteDataZMQ(addrs, hwm=hwm, **options), capacity, infinite)
        self._batch_size = batch_size

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        return with_batch_size(specs, self._batch_size)

    def _datapoint_specs(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.TensorSpec]:
        return specs

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"), tf.name_scope("ZMQInput"):
            return self._ops.dequeue(specs)
