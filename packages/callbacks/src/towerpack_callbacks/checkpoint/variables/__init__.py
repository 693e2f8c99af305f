"""Values of variables: copied out of a session, and set in one."""

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
