"""Searches of a finished graph: tensors by name, applied gradients, the ops that tensors depend on."""

from ._applied_gradients import find_applied_gradients
from ._find_tensors import as_names, find_tensors
from ._op_ancestors import ancestors, creation_order, reads_variable, sources_of

__all__ = [
    "ancestors",
    "as_names",
    "creation_order",
    "find_applied_gradients",
    "find_tensors",
    "reads_variable",
    "sources_of",
]
