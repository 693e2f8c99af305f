"""One model in several processes, on one host or many."""

from ._distributed_errors import (
    ClusterError,
    LaunchError,
    MissingExtraError,
    PeerLostError,
    RanksDifferError,
    RendezvousError,
)
from ._distributed_trainers import DistributedTrainer, ExchangeTrainer, MPITrainer
from .cluster import Cluster, launch, launch_on_ray, resolve_cluster
from .exchange import (
    Averaged,
    CollectiveCommunicator,
    Communicator,
    MPICommunicator,
    average_over_processes,
    broadcast_variables,
)
from .group import ProcessGroup

__all__ = [
    "Averaged",
    "Cluster",
    "ClusterError",
    "CollectiveCommunicator",
    "Communicator",
    "DistributedTrainer",
    "ExchangeTrainer",
    "LaunchError",
    "MPICommunicator",
    "MPITrainer",
    "MissingExtraError",
    "PeerLostError",
    "ProcessGroup",
    "RanksDifferError",
    "RendezvousError",
    "average_over_processes",
    "broadcast_variables",
    "launch",
    "launch_on_ray",
    "resolve_cluster",
]
