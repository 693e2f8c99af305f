"""Searches in a finished graph: tensors, scopes, gradients, copies, and dependencies of tensors."""

from ._find_tensors import (
    as_names,
    begin_as_copies,
    copies_are_due,
    find_tensors,
    floating_variables,
    take_copies,
)
from ._op_ancestors import creation_order, find_ancestors, find_applied_gradients, reads_variable, sources_of

__all__ = [
    "as_names",
    "begin_as_copies",
    "copies_are_due",
    "creation_order",
    "find_ancestors",
    "find_applied_gradients",
    "find_tensors",
    "floating_variables",
    "reads_variable",
    "sources_of",
    "take_copies",
]
