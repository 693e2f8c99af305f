"""Train one model in several processes, on one host or many."""

from .._errors import (
    ClusterError,
    LaunchError,
    MissingExtraError,
    PeerLostError,
    RanksDifferError,
    RendezvousError,
)
from ..session import ProcessStrategy
from ._synchronous_processes import DistributedTrainer, MPITrainer, SynchronousProcesses
from .cluster import Cluster, launch, launch_on_ray, resolve_cluster
from .exchange import (
    Averaged,
    CollectiveCommunicator,
    Communicator,
    MPICommunicator,
    MPIExchange,
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
    "LaunchError",
    "MPICommunicator",
    "MPIExchange",
    "MPITrainer",
    "MissingExtraError",
    "PeerLostError",
    "ProcessGroup",
    "ProcessStrategy",
    "RanksDifferError",
    "RendezvousError",
    "SynchronousProcesses",
    "average_over_processes",
    "broadcast_variables",
    "launch",
    "launch_on_ray",
    "resolve_cluster",
]
