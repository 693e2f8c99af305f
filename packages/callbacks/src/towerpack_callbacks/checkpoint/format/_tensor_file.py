"""TensorFlow's checkpoint files: written independently of any graph and session in use, read by name."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from ..._errors import CheckpointError

__all__ = ["TensorFile", "read_tensors"]

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_PLAIN = re.compile(r"[A-Za-z0-9_./=,+-]+")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


@final
class TensorFile:
    """Writes arrays to files, through a small graph that is reused for the same names and types.

    The training graph is final and may be running, and building a graph for each file would hold the
    interpreter lock that the training needs. Close the object, or use it as a context manager.
    """

    def __init__(self) -> None:
        self._built_for: list[tuple[str, np.dtype[Any]]] | None = None
        self._sess: tf.Session | None = None
        self._run: Callable[..., Any]

    def write(self, prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
        """Writes arrays by name to `<prefix>.index` and `<prefix>.data-…`.

        Raises:
            TypeError: there is no array, or one has a type that TensorFlow's files cannot hold; the message
                names it.
            tf.errors.OpError: the files cannot be written.
        """
        names = sorted(variables)
        _check_arrays(variables)
        arrays = [np.asarray(variables[name]) for name in names]
        wanted = [(name, array.dtype) for name, array in zip(names, arrays)]
        if wanted != self._built_for:
            self._build(names, arrays)
            self._built_for = wanted
        with _plain_path(prefix) as path:
            try:
                self._run(path, *arrays)
            except tf.errors.OpError as error:
                message = error.message.replace(path, str(prefix))
                raise type(error)(error.node_def, error.op, message) from None

    def close(self) -> None:
        """Closes the session."""
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


def _check_arrays(variables: Mapping[str, np.ndarray]) -> None:
    if not variables:
        raise TypeError("there is no variable, but a TensorFlow file needs at least one. Give one")
    if not all(variables):  # TensorFlow would abort the process
        raise TypeError("a variable has an empty name. Give it another one")
    for name, array in variables.items():
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(
                f"the variable {name!r} is a masked array, and its mask would be lost. Fill it first"
            )
        dtype = np.asarray(array).dtype
        if dtype.kind not in "OSU" and not _is_kept(dtype):
            raise TypeError(
                f"the variable {name!r} has type {dtype}, which TensorFlow files cannot store. Convert it "
                "first"
            )


def _is_kept(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this type is restored with the same type and byte order."""
    try:
        kind = tf.as_dtype(dtype)
    except TypeError:
        return False
    # Arrays of qint8 and similar types are restored as integers.
    return not kind.is_quantized and bool(np.dtype(kind.as_numpy_dtype) == dtype)


def read_tensors(prefix: Path) -> dict[str, np.ndarray]:
    """Reads the variables of a TensorFlow checkpoint by name, including those of `tf.train.Checkpoint`.

    Raises:
        CheckpointError: the checkpoint cannot be read, or is damaged.
    """
    try:
        with _plain_path(prefix) as path:
            reader = tf.train.load_checkpoint(path)
            names = {name: name for name in reader.get_variable_to_shape_map()}
            if _OBJECT_GRAPH in names:
                names = _variable_names(reader.get_tensor(_OBJECT_GRAPH))
            return {name: reader.get_tensor(key) for key, name in names.items()}
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        if "Checksum does not match" in str(error):
            raise CheckpointError(
                f"{prefix}: {error}. It is damaged: resume from another checkpoint."
            ) from error
        raise CheckpointError(
            f"{prefix} cannot be read as a TensorFlow checkpoint: {error}. "
            "Expected a prefix such as train_log/run/model-1000/variables."
        ) from error


@contextlib.contextmanager
def _plain_path(prefix: Path) -> Iterator[str]:
    """Yields a path to the same files that contains only plain characters.

    TensorFlow interprets some characters of a path, such as brackets, as a pattern and then finds no file; it
    refuses paths that are not UTF-8.
    """
    if _PLAIN.fullmatch(str(prefix)):
        yield str(prefix)
    elif _PLAIN.fullmatch(prefix.name):
        descriptor = os.open(prefix.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{descriptor}/{prefix.name}"
        finally:
            os.close(descriptor)
    else:  # written by another program: ours are called `variables`
        with tempfile.TemporaryDirectory() as directory:
            for file in prefix.parent.iterdir():
                if file.name == prefix.name or file.name.startswith(f"{prefix.name}."):
                    end = file.name.removeprefix(prefix.name)
                    Path(directory, f"variables{end}").symlink_to(file.absolute())
            yield f"{directory}/variables"


def _variable_names(object_graph: Any) -> dict[str, str]:
    """Returns variable names by key of an object-based checkpoint.

    A variable keeps its original name, such as "fc0/kernel". Without a name, or if two variables share one,
    it is named by its object path, such as "model/encoder/w".

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
