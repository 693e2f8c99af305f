"""Reads values of variables from a session and assigns them."""

from ._snapshot_ops import add_copies, copies_or_variables
from ._variable_values import assign_variables, complete_copies, initial_feeds, snapshot_variables

__all__ = [
    "add_copies",
    "assign_variables",
    "complete_copies",
    "copies_or_variables",
    "initial_feeds",
    "snapshot_variables",
]
