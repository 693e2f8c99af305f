"""The specs of a datapoint's components: checks of specs, and of tensors against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import SpecError
from ._datapoint_check import Component

__all__ = ["as_declared", "check_component", "check_specs", "component_of", "in_order_of", "with_batch_size"]


def check_specs(specs: Sequence[tf.TensorSpec]) -> tuple[tf.TensorSpec, ...]:
    """Checks the specs of a source and returns them as a tuple.

    Raises:
        SpecError: there are no specs, or one is not a `tf.TensorSpec`, is unnamed, or shares its name.
    """
    checked = tuple(specs)
    if not checked:
        raise SpecError(
            "setup() received no specs. Give one tf.TensorSpec for each component of a datapoint."
        )
    for number, spec in enumerate(checked):
        if not isinstance(spec, tf.TensorSpec):
            raise SpecError(f"Spec {number} is {spec!r}, not a tf.TensorSpec(shape, dtype, name).")
        if not spec.name:
            raise SpecError(f"Spec {number} has no name: {spec!r}. Write tf.TensorSpec(shape, dtype, name).")
    names = [spec.name for spec in checked]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SpecError(
            f"The names {doubled} occur more than once in the specs {names}; make each name unique."
        )
    return checked


def component_of(spec: tf.TensorSpec) -> Component:
    """Returns a spec in NumPy's terms, for the check of arrays to feed."""
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return Component(spec.name, np.dtype(spec.dtype.as_numpy_dtype), shape)


def with_batch_size(specs: Sequence[tf.TensorSpec], size: int | None) -> tuple[tf.TensorSpec, ...]:
    """Returns the specs with an unknown first axis filled in; a size of None leaves them unchanged.

    TensorFlow then computes shapes once, when the graph is built, instead of in each step.
    """
    if size is None:
        return tuple(specs)
    return tuple(
        tf.TensorSpec([size, *spec.shape[1:]], spec.dtype, spec.name)
        if spec.shape.rank and spec.shape[0] is None
        else spec
        for spec in specs
    )


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
