"""Input that the caller feeds: placeholders named after the specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from .._errors import SpecError
from .._source import InputSource

__all__ = ["PlaceholderInput", "fed_placeholder", "placeholder_for"]


@final
class PlaceholderInput(InputSource):
    """Makes the placeholders alone, for a predictor or a loop that feeds by itself.

    The placeholders are named after the specs alone, whatever the name scope. A placeholder of that name,
    dtype and shape that the graph has already is used again, so every call and every source gives the same.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     source = PlaceholderInput()
        ...     source.setup([tf.TensorSpec([None], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     print(session.run(2 * x, {"x:0": [1, 2]}))
        [2. 4.]
    """

    feed_free = False

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self._placeholders = [placeholder_for(spec) for spec in specs]

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        return self._placeholders


def placeholder_for(spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the current graph's placeholder for a spec, and makes it if the graph has none yet.

    Raises:
        SpecError: another op has the name, or the placeholder's dtype or shape is not the declared one.
    """
    found = _op_named(spec.name)
    if found is not None and found.type != "Placeholder":
        raise SpecError(
            f"The name {spec.name!r} of {spec!r} is taken in this graph by an op of type {found.type}. "
            "Set the source up before the model, or rename one of them."
        )
    return fed_placeholder(spec)


def fed_placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    """Does what `placeholder_for` does, but makes one of another name where another op has that of the spec.

    It is for whom feeds by the tensor: from 2.23 on, TensorFlow calls constants `x` and `y` in `tf.multiply`.

    Raises:
        SpecError: the placeholder's dtype or shape is not the declared one.
    """
    found = _op_named(spec.name)
    if found is None or found.type != "Placeholder":
        with tf.name_scope(None), tf.control_dependencies(None):
            return tf.placeholder(spec.dtype, spec.shape, spec.name)
    [tensor] = found.outputs
    # Compared as text: to TensorShape itself, an unknown dimension equals nothing.
    if tensor.dtype != spec.dtype or str(tensor.shape) != str(spec.shape):
        raise SpecError(
            f"The graph already has a placeholder {spec.name!r} of dtype {tensor.dtype.name} and shape "
            f"{tensor.shape}, but the spec declares {spec.dtype.name} and {spec.shape}. "
            "Declare the same, or another name."
        )
    return tensor


def _op_named(name: str) -> tf.Operation | None:
    try:
        return tf.get_default_graph().get_operation_by_name(name)
    except KeyError:
        return None
