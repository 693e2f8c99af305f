"""The specs of a datapoint's components: checks, and conversion for NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import SpecError
from ._datapoint_check import Component

__all__ = ["check_specs", "component_of", "with_batch_size"]


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
