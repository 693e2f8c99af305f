"""Searches in a finished graph: tensors, scopes, gradients, copies, and dependencies of tensors."""

from ._applied_gradients import find_applied_gradients
from ._find_tensors import as_names, find_tensors
from ._op_ancestors import creation_order, find_ancestors, reads_variable, sources_of
from ._scoped_variables import floating_variables
from ._variable_copies import begin_as_copies, copies_are_due, take_copies

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
