"""One model in several processes, on one host or many."""

from ._cluster import Cluster, resolve_cluster
from ._collective import CollectiveCommunicator
from ._communicator import Communicator
from ._errors import (
    ClusterError,
    LaunchError,
    MissingExtraError,
    PeerLostError,
    RanksDifferError,
    RendezvousError,
)
from ._gradients import Averaged, average_over_processes, broadcast_variables
from ._group import ProcessGroup
from ._launch import launch
from ._mpi import MPICommunicator
from ._ray import launch_on_ray
from ._trainer import DistributedTrainer, ExchangeTrainer, MPITrainer

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
