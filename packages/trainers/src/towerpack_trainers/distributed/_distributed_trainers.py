"""Trainers with one replica in each of several processes, on one host or many."""

from __future__ import annotations

from typing import Any, final

from ..base import SingleCostTrainer
from ..config._train_config import TrainConfig
from ._synchronous_processes import Reshard, SynchronousProcesses
from .cluster import Cluster, resolve_cluster
from .exchange import CollectiveCommunicator, MPICommunicator

__all__ = ["DistributedTrainer", "MPITrainer"]


@final
class DistributedTrainer(SingleCostTrainer):
    """Trains on several hosts, or in several processes of one, with TensorFlow's own collectives.

    Args:
        config: the training; the same in all processes except for the data, of which each process needs a
            shard. None: call `setup_graph`.
        cluster: the processes; None: the result of `resolve_cluster()`. Or a `CollectiveCommunicator`, to set
            its time-outs.
        reshard: translates a position in the data when a training continues with another number of processes,
            such as `towerpack_dataflow.reshard`.

    Raises:
        RanksDifferError: (in `train`) the processes do not train the same model.
        PeerLostError: (in `train`) another process died, stopped responding or failed.

    Example:
        ```python
        cluster = resolve_cluster()
        flow = BatchData(ShardData(train, cluster.rank, cluster.size), 32)
        DistributedTrainer(TrainConfig(model=model, dataflow=flow, resume="auto"), cluster).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        cluster: Cluster | CollectiveCommunicator | None = None,
        reshard: Reshard | None = None,
    ) -> None:
        if not isinstance(cluster, CollectiveCommunicator):
            cluster = CollectiveCommunicator(resolve_cluster() if cluster is None else cluster)
        self.communicator = cluster
        super().__init__(config, processes=SynchronousProcesses(cluster, reshard))


@final
class MPITrainer(SingleCostTrainer):
    """Trains in the processes that `mpiexec` has started. Needs the extra `mpi`.

    Args:
        config: as for `DistributedTrainer`.
        comm: an `mpi4py.MPI.Comm`; None: all processes. Or an `MPICommunicator`, to set its time-outs.
        reshard: as for `DistributedTrainer`.

    Raises:
        MissingExtraError: mpi4py is not installed.
    """

    def __init__(
        self, config: TrainConfig | None = None, comm: Any = None, reshard: Reshard | None = None
    ) -> None:
        self.communicator = comm if isinstance(comm, MPICommunicator) else MPICommunicator(comm)
        super().__init__(config, processes=SynchronousProcesses(self.communicator, reshard))
