"""`tensorpack.tfutils.common`, `.collection`, `.dependency` and `.model_utils`: helpers for graphs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_trainers as trainers
from towerpack_callbacks import find_ancestors

from ...tensorflow1._variables import tensor_by_name
from . import logger

__all__ = [
    "backup_collection",
    "create_image_summary",
    "create_scalar_summary",
    "dependency_of_fetches",
    "dependency_of_targets",
    "describe_trainable_vars",
    "freeze_collection",
    "get_global_step_value",
    "get_global_step_var",
    "get_op_or_tensor_by_name",
    "get_op_tensor_name",
    "get_tensors_by_names",
    "gpu_available_in_session",
    "graph_memoized",
    "restore_collection",
]


def graph_memoized(function: Any) -> Any:
    """Caches the result of a function for each graph and arguments."""

    @functools.cache
    def in_graph(_graph: tf.Graph, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return in_graph(tf.get_default_graph(), *args, **kwargs)

    return call


def get_global_step_var() -> Any:
    """Returns the variable that counts the steps."""
    return tf.train.get_or_create_global_step()


def get_global_step_value() -> int:
    """Returns the number of steps, in the default session."""
    return int(tf.train.global_step(tf.get_default_session(), get_global_step_var()))


def get_op_tensor_name(name: str) -> tuple[str, str]:
    """Returns the names of an op and of its first tensor, given either name."""
    op = name.rpartition(":")[0] if ":" in name else name
    return op, name if ":" in name else f"{name}:0"


def get_op_or_tensor_by_name(name: Any) -> Any:
    """Returns the tensor for a name with a colon, the op for a name without; a list for a list of names."""
    if isinstance(name, list):
        return [get_op_or_tensor_by_name(each) for each in name]
    graph = tf.get_default_graph()
    return tensor_by_name(graph, name) if ":" in name else graph.get_operation_by_name(name)


def get_tensors_by_names(names: Sequence[str]) -> list[Any]:
    """Returns tensors of the default graph."""
    return [tensor_by_name(tf.get_default_graph(), get_op_tensor_name(name)[1]) for name in names]


def gpu_available_in_session() -> bool:
    """Returns whether the default session has a GPU."""
    devices = tf.get_default_session().list_devices()
    return any(device.device_type.lower() == "gpu" for device in devices)


def backup_collection(keys: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Returns the contents of collections, by default of all collections."""
    return {key: tf.get_collection(key) for key in keys or tf.get_default_graph().get_all_collection_keys()}


def restore_collection(backup: dict[str, list[Any]]) -> None:
    """Restores the contents of collections that `backup_collection` returned."""
    for key, items in backup.items():
        tf.get_collection_ref(key)[:] = items


@contextlib.contextmanager
def freeze_collection(keys: Sequence[str]) -> Iterator[None]:
    """Removes the items that a block adds to collections."""
    backup = backup_collection(keys)
    yield
    restore_collection(backup)


def dependency_of_targets(targets: Any, op: Any) -> bool:
    """Returns whether one of the targets depends on an op or a tensor."""
    listed = targets if isinstance(targets, (list, tuple)) else [targets]
    return (op.op if isinstance(op, tf.Tensor) else op) in find_ancestors(listed)


def dependency_of_fetches(fetches: Any, op: Any) -> bool:
    """Returns whether one of the fetches of a session call depends on an op or a tensor."""
    return dependency_of_targets(tf.nest.flatten(fetches), op)


def describe_trainable_vars() -> None:
    """Logs the trainable variables of the default graph."""
    logger.info("%s", trainers.describe_trainable_variables(tf.get_default_graph()))


def create_scalar_summary(name: str, v: float) -> tf.Summary:
    """Returns a summary of one number."""
    return tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=float(v))])


def create_image_summary(name: str, val: Any) -> tf.Summary:
    """Returns a summary of images, an array [N, H, W, C] of 0 to 255."""
    from towerpack_callbacks.monitors._monitors import image_summary  # noqa: PLC2701

    return image_summary(name, val)
