"""Train one model in several processes, on one host or many."""

from .._errors import (
    ClusterError,
    LaunchError,
    MissingExtraError,
    PeerLostError,
    RanksDifferError,
    RendezvousError,
)
from ..session._process_strategy import ProcessStrategy
from ._synchronous_processes import DistributedTrainer, MPITrainer, SynchronousProcesses
from .cluster._cluster import Cluster, resolve_cluster
from .cluster._launch import launch
from .cluster._launch_on_ray import launch_on_ray
from .exchange._average_over_processes import Averaged, average_over_processes, broadcast_variables
from .exchange._collective import CollectiveCommunicator
from .exchange._communicator import Communicator
from .exchange._mpi import MPICommunicator, MPIExchange
from .group._process_group import ProcessGroup

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
