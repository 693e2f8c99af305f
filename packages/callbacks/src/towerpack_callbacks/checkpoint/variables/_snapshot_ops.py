"""Copies variables with graph ops, on all cores, without the interpreter lock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import tensorflow.compat.v1 as tf

from ._variable_values import variables_in

__all__ = ["add_copies", "copies_or_variables"]

_SCOPE = "towerpack_copies"

# TensorFlow 2.21 stores and fetches these types but has no op that copies them.
_NOT_COPIED = re.compile(r"float[48]_.*|u?int[24]")


def add_copies(graph: tf.Graph, collections: Sequence[str]) -> None:
    """Adds an op that copies each variable, for `copies_or_variables`; once for all savers of a graph.

    TensorFlow copies a fetched variable into new memory pages, in one thread that holds the interpreter lock.
    A copy made by the graph is returned directly, which takes a fraction of the time. On GPUs a fetched value
    is always a copy.
    """
    if graph.finalized or tf.config.list_physical_devices("GPU"):
        return
    with graph.as_default(), tf.name_scope(None), tf.device("/cpu:0"), tf.control_dependencies(None):
        for name, variable in variables_in(graph, collections).items():
            if _can_be_copied(variable.dtype.base_dtype) and _copy_of(graph, name) is None:
                tf.raw_ops.DeepCopy(x=variable.read_value(), name=f"{_SCOPE}/{name}")


def copies_or_variables(graph: tf.Graph, collections: Sequence[str]) -> Mapping[str, tf.Tensor | tf.Variable]:
    """Returns the tensors to fetch for all variables, by name: their copies if they exist."""
    found = variables_in(graph, collections)
    copies = {name: _copy_of(graph, name) for name in found}
    return {name: variable if copies[name] is None else copies[name] for name, variable in found.items()}


def _can_be_copied(dtype: tf.DType) -> bool:
    return bool(dtype.is_numpy_compatible) and not _NOT_COPIED.fullmatch(dtype.name)


def _copy_of(graph: tf.Graph, name: str) -> tf.Tensor | None:
    try:
        return graph.get_tensor_by_name(f"{_SCOPE}/{name}:0")
    except KeyError:
        return None
