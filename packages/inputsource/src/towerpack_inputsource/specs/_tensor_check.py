"""Checks the tensors of a user's function or of a tf.data element against the specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import SpecError

__all__ = ["as_declared", "check_component", "in_order_of"]


def in_order_of(specs: Sequence[tf.TensorSpec], components: Any, giver: str) -> list[Any]:
    """Returns the components as a list in the order of the specs.

    Args:
        specs: the declared specs.
        components: a list or tuple in the order of the specs, a dict by their names, or a single component.
        giver: the origin of the components, for the error.

    Raises:
        SpecError: the components do not correspond to the specs.
    """
    names = [spec.name for spec in specs]
    if isinstance(components, Mapping):
        if set(components) != set(names):
            raise SpecError(
                f"{giver} gives a dict with the keys {sorted(map(str, components))}, but the specs declare "
                f"{names}. Give exactly these."
            )
        return [components[name] for name in names]
    listed = list(components) if isinstance(components, (list, tuple)) else [components]
    if len(listed) != len(names):
        raise SpecError(
            f"{giver} gives {len(listed)} components, but the specs declare {len(names)}: {names}. "
            "Give one for each, in this order, or a dict by these names."
        )
    return listed


def check_component(spec: tf.TensorSpec, dtype: tf.DType, shape: tf.TensorShape, giver: str) -> None:
    """Checks the known dtype and shape of a component against its spec.

    Raises:
        SpecError: the dtype or the shape does not match the declared one.
    """
    if dtype != spec.dtype:
        raise SpecError(
            f"{giver} gives {spec.name!r} as {dtype.name}, but the spec declares {spec.dtype.name}. "
            f"Cast it there, or declare {dtype.name}."
        )
    if not spec.shape.is_compatible_with(shape):
        raise SpecError(
            f"{giver} gives {spec.name!r} with the shape {shape}, but the spec declares {spec.shape}. "
            "Change one of them; None is any size."
        )


def as_declared(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the tensor with the declared shape, checked at run time only if not known to match."""
    known = tensor.shape
    fits = spec.shape.rank is None or (
        known.rank is not None
        and all(want is None or have == want for have, want in zip(known.as_list(), spec.shape.as_list()))
    )
    return tensor if fits else tf.ensure_shape(tensor, spec.shape)
