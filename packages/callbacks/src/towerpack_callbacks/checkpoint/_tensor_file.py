"""Writes arrays in TensorFlow's own format, beside any graph and session in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["TensorFile"]


class TensorFile:
    """Writes such files, through a small graph that is built once for the same names and types.

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
        """Lets its session go."""
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
