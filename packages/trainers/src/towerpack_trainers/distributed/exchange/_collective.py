"""Exchange through TensorFlow's collective runtime: `CollectiveReduceV2` over gRPC, or NCCL between GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from ..._errors import ClusterError
from ..cluster._cluster import Cluster
from ..group._process_group import join_cluster
from ._communicator import Communicator

__all__ = ["CollectiveCommunicator"]

_GROUP_KEY = 1

# The ops' own `timeout_seconds` is not used: TensorFlow 2.21 starts a thread for each exchange with a
# timeout, and the thread sleeps to the end of the time even if the exchange is over. Instead, the group's
# heartbeats end a step that takes too long.


@final
class CollectiveCommunicator(Communicator):
    """TensorFlow's collective ops between the servers of a cluster.

    The constructor waits until all processes have connected. The server starts with the first session, on
    this process's address in the cluster, and runs until the process ends: TensorFlow cannot stop it.

    Args:
        cluster: the processes.
        hint: "ring" exchanges over gRPC, "nccl" between GPUs (not run on GPUs by our CI), "auto" lets
            TensorFlow choose by device.
        start_timeout: the time to wait for all processes, in seconds.
        peer_timeout: the time without a heartbeat, in seconds, after which a process counts as lost.
        step_timeout: the maximum time of one exchange, in seconds. It includes waiting for the slowest
            process, so it must be longer than the chief's longest evaluation between two steps.
        token: a secret that authenticates the processes to each other; None: `TOWERPACK_TOKEN` of the
            environment, which launchers set. Processes that connect through a loopback address need none.

    Raises:
        ClusterError: the hint is unknown; or there is no token, and the processes connect over a network.
        RendezvousError: a process did not connect.

    Example:
        ```python
        communicator = CollectiveCommunicator(Cluster.of(["10.0.0.1:2222", "10.0.0.2:2222"], rank=0))
        averages = communicator.all_reduce([gradient for gradient, _ in pairs])
        ```
    """

    def __init__(
        self,
        cluster: Cluster,
        hint: str = "auto",
        start_timeout: float = 600.0,
        peer_timeout: float = 30.0,
        step_timeout: float = 1800.0,
        token: str | None = None,
    ) -> None:
        if hint not in ("auto", "ring", "nccl"):
            raise ClusterError(f'hint={hint!r}: expected "auto", "ring" or "nccl".')
        self.cluster = cluster
        self._hint = hint
        self._keys = itertools.count(1)
        self._latest: list[int] = []
        self._server: tf.distribute.Server | None = None
        self.group = join_cluster(cluster, start_timeout, peer_timeout, step_timeout, token)

    def all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        self._latest = [next(self._keys) for _ in tensors]
        return self.repeat_all_reduce(tensors)

    def repeat_all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if self.size == 1:
            return [tf.identity(tensor) for tensor in tensors]
        reduced: list[tf.Tensor] = []
        for tensor, key in zip(tensors, self._latest):
            # NCCL hangs if processes start its operations in different orders.
            with tf.control_dependencies(reduced[-1:] if self._hint == "nccl" else []):
                reduced.append(
                    tf.raw_ops.CollectiveReduceV2(
                        input=tensor,
                        group_size=self.size,
                        group_key=_GROUP_KEY,
                        instance_key=key,
                        ordering_token=[],
                        merge_op="Add",
                        final_op="Div",
                        communication_hint=self._hint,
                    )
                )
        return reduced

    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if self.size == 1:
            return [tf.identity(tensor) for tensor in tensors]
        return [self._send_or_receive(tensor, next(self._keys)) for tensor in tensors]

    def _send_or_receive(self, tensor: tf.Tensor, key: int) -> tf.Tensor:
        common = {
            "group_size": self.size,
            "group_key": _GROUP_KEY,
            "instance_key": key,
            "communication_hint": self._hint,
        }
        if self.group.is_chief:
            return tf.raw_ops.CollectiveBcastSendV2(input=tensor, **common)
        return tf.raw_ops.CollectiveBcastRecvV2(T=tensor.dtype, shape=tensor.shape.as_list(), **common)

    def prepare(self, config: tf.ConfigProto) -> tf.ConfigProto:
        if self.size == 1:
            return config
        job, index = self.cluster.task
        leader_job, leader_index = self.cluster.tasks[0]
        changed = tf.ConfigProto()
        changed.CopyFrom(config)
        changed.experimental.collective_group_leader = f"/job:{leader_job}/replica:0/task:{leader_index}"
        # A session of one process must not query the devices of others, which may be late or gone.
        changed.device_filters.append(f"/job:{job}/task:{index}")
        # Separates the variables and queues of this training from those of an earlier one in this process.
        changed.isolate_session_state = True
        if self._server is None:
            spec = tf.train.ClusterSpec(self.cluster.spec())
            self._server = tf.distribute.Server(spec, job_name=job, task_index=index, config=changed)
            self.target = self._server.target
        # No process exchanges tensors before every server answers.
        self.group.barrier()
        return changed
