"""Input fed by the caller: placeholders named after the specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from .._errors import SpecError
from .._source import InputSource

__all__ = ["PlaceholderInput", "fed_placeholder", "placeholder_for"]


@final
class PlaceholderInput(InputSource):
    """Creates only placeholders, for a predictor or a loop that feeds data itself.

    The placeholders are named after the specs, independent of the name scope. An existing placeholder with
    the same name, dtype and shape is reused, so all calls and sources give the same placeholders.

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
    """Returns the current graph's placeholder for a spec, creating it if necessary.

    Raises:
        SpecError: another op has the name, or the placeholder's dtype or shape does not match.
    """
    found = _op_named(spec.name)
    if found is not None and found.type != "Placeholder":
        raise SpecError(
            f"The name {spec.name!r} of {spec!r} is already used in this graph by an op of type "
            f"{found.type}. "
            "Set the source up before the model, or rename one of them."
        )
    return fed_placeholder(spec)


def fed_placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    """Works like `placeholder_for`, but uses another name if an op already has that of the spec.

    Use it if you feed by tensor: since version 2.23, TensorFlow names constants in `tf.multiply` `x` and `y`.

    Raises:
        SpecError: the placeholder's dtype or shape does not match.
    """
    found = _op_named(spec.name)
    if found is None or found.type != "Placeholder":
        with tf.name_scope(None), tf.control_dependencies(None):
            return tf.placeholder(spec.dtype, spec.shape, spec.name)
    [tensor] = found.outputs
    # Compare as text: in TensorShape, an unknown dimension equals no other.
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
