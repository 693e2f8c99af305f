"""Which processes train together, and how they are started."""

from ._cluster import Cluster, resolve_cluster, split_address
from ._launch import exit_code, free_addresses, launch, processes_of_try
from ._launch_on_ray import launch_on_ray

__all__ = [
    "Cluster",
    "exit_code",
    "free_addresses",
    "launch",
    "launch_on_ray",
    "processes_of_try",
    "resolve_cluster",
    "split_address",
]
