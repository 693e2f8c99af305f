"""The processes that train together, and how to start them."""

from ._cluster import (
    TOKEN_VARIABLE,
    Cluster,
    is_loopback,
    make_token,
    resolve_cluster,
    resolve_token,
    split_address,
)
from ._launch import exit_code, free_addresses, launch, processes_of_try
from ._launch_on_ray import launch_on_ray

__all__ = [
    "TOKEN_VARIABLE",
    "Cluster",
    "exit_code",
    "free_addresses",
    "is_loopback",
    "launch",
    "launch_on_ray",
    "make_token",
    "processes_of_try",
    "resolve_cluster",
    "resolve_token",
    "split_address",
]
