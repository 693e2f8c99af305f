"""TensorFlow's own checkpoint files: written beside any graph and session in use, and read by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from ..._errors import CheckpointError

__all__ = ["TensorFile", "read_tensors"]

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


@final
class TensorFile:
    """Writes files of arrays, through a small graph that is built once for the same names and types.

    The training graph is final, and may be running; and building a graph for each file would hold the
    interpreter while the training needs it. Close it, or use it as a context.
    """

    def __init__(self) -> None:
        self._built_for: list[tuple[str, np.dtype[Any]]] | None = None
        self._sess: tf.Session | None = None
        self._run: Callable[..., Any]

    def write(self, prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
        """Writes arrays by name to `<prefix>.index` and `<prefix>.data-…`.

        Raises:
            tf.errors.OpError: the files cannot be written.
        """
        names = sorted(variables)
        arrays = [np.asarray(variables[name]) for name in names]
        wanted = [(name, array.dtype) for name, array in zip(names, arrays)]
        if wanted != self._built_for:
            self._build(names, arrays)
            self._built_for = wanted
        self._run(str(prefix), *arrays)

    def close(self) -> None:
        """Closes its session."""
        if self._sess is not None:
            self._sess.close()
        self._sess = self._built_for = None

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _build(self, names: list[str], arrays: list[np.ndarray]) -> None:
        self.close()
        with tf.Graph().as_default() as graph:
            prefix = tf.placeholder(tf.string, [])
            tensors = [tf.placeholder(array.dtype) for array in arrays]
            save = tf.raw_ops.SaveV2(
                prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
            )
        self._sess = tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))
        self._run = self._sess.make_callable(save, feed_list=[prefix, *tensors])


def read_tensors(prefix: Path) -> dict[str, np.ndarray]:
    """Reads the variables of a TensorFlow checkpoint by name, also of one that `tf.train.Checkpoint` wrote.

    Raises:
        CheckpointError: the checkpoint cannot be read, or is damaged.
    """
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        names = {name: name for name in reader.get_variable_to_shape_map()}
        if _OBJECT_GRAPH in names:
            names = _variable_names(reader.get_tensor(_OBJECT_GRAPH))
        return {name: reader.get_tensor(key) for key, name in names.items()}
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        if "Checksum does not match" in str(error):
            raise CheckpointError(f"{prefix}: {error}. It is damaged: go on from another one.") from error
        raise CheckpointError(
            f"{prefix} cannot be read as a TensorFlow checkpoint: {error}. "
            "Expected a prefix such as train_log/run/model-1000/variables."
        ) from error


def _variable_names(object_graph: Any) -> dict[str, str]:
    """Returns variable names by key of an object-based checkpoint.

    A variable keeps the name it had where it was made, such as "fc0/kernel". Where it had no name, or shares
    its name with another one, it is called by its path through the objects, such as "model/encoder/w".

    Args:
        object_graph: the value under `_OBJECT_GRAPH`, a serialized `TrackableObjectGraph`.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(object_graph)
    named = {
        attribute.checkpoint_key: attribute.full_name
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key.endswith(_VALUE)
    }
    count = Counter(named.values())
    return {
        key: name if name and count[name] == 1 else key.removesuffix(_VALUE) for key, name in named.items()
    }
