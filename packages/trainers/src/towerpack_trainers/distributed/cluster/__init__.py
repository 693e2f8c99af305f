"""The processes that train together, and how to start them."""

from ._cluster import make_token
from ._launch import exit_code, free_addresses, processes_of_try

__all__ = ["exit_code", "free_addresses", "make_token", "processes_of_try"]
