"""A layer with numbers for its checks, computed once."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._built_layer import BuiltLayer, Numbers, draw_weights, flatten
from ._layer_case import LayerCase
from ._ulp_distance import expect

__all__ = ["LayerUnderTest"]


@final
class LayerUnderTest:
    """A described layer, and the expected numbers of its checks.

    Args:
        case: the layer.
    """

    def __init__(self, case: LayerCase) -> None:
        self.case = case
        self.x = case.draw_input()

    @functools.cached_property
    def trained(self) -> BuiltLayer:
        """The layer described by `case`, in training."""
        return BuiltLayer(self.case)

    @functools.cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The values of all variables: the initial ones, with a perturbation for trained variables.

        Without it, a bias of zeros or a scale of ones would hide errors.
        """
        random = np.random.default_rng(42)
        values = self.trained.initial_values()
        for name in self.trained.targets:
            if name != "input" and values[name].dtype.kind == "f":
                moved = values[name] + 0.3 * random.normal(size=values[name].shape)
                values[name] = moved.astype(values[name].dtype)
        return values

    @functools.cached_property
    def is_deterministic(self) -> bool:
        """Whether repeated computations in training give the same result."""
        # In one session, since another session with the seed of the graph would draw the same numbers.
        built, outputs = self.trained, list[list[np.ndarray]]()
        for _ in range(2):
            outputs.append(built.run(self.x, self.values).outputs)
        return all(map(_equal, *outputs))

    @functools.cached_property
    def subject(self) -> BuiltLayer:
        """The layer for comparisons: in training, or in inference if training is random."""
        return self.trained if self.is_deterministic else BuiltLayer(self.case, is_training=False)

    @functools.cached_property
    def weights(self) -> list[np.ndarray]:
        """The weights of the output elements in the scalar for gradient comparisons."""
        weighted = zip(self.subject.outputs, self.subject.run(self.x, self.values).outputs)
        return draw_weights([value for output, value in weighted if output.dtype.is_floating])

    @functools.cached_property
    def numbers(self) -> Numbers:
        """The outputs and gradients of `subject`."""
        return self.subject.run(self.x, self.values, self.weights)

    def variant(self, **changes: Any) -> BuiltLayer:
        """Builds the layer in the mode of `subject`, with changed arguments of `BuiltLayer`."""
        return BuiltLayer(self.case, is_training=self.is_deterministic, **changes)

    @functools.cached_property
    def wide(self) -> BuiltLayer | None:
        """The layer for float64, or `None` if it does not support float64."""
        return self.variant_of(tf.float64) if self.case.dtype.is_floating else None

    def variant_of(self, dtype: tf.DType) -> BuiltLayer | None:
        """Builds the layer for another dtype, or returns `None` if the layer refuses the dtype.

        Raises:
            ConformanceError: the layer's error does not name the received dtype, or is raised after variables
                have been created.
        """
        try:
            return self.variant(dtype=dtype)
        except (TypeError, ValueError) as error:
            name = dtype.name
            expect(
                "received" in str(error) and name in str(error),
                f"an input of {name} must be accepted, or refused by an error with 'received {name}', "
                f"received {type(error).__name__}: {error}",
            )
            return None

    def refer(self, x: np.ndarray, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of the reference in float64."""
        assert self.case.reference is not None
        wide = {name: np.asarray(value, np.float64) for name, value in values.items()}
        if x.dtype.kind == "f":
            x = x.astype(np.float64)
        return [np.asarray(output) for output in flatten(self.case.reference(x, wide))]

    def with_constants(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the values and the constants of gradients."""
        if self.case.constants is None:
            return dict(values)
        wide = {name: np.asarray(value, np.float64) for name, value in values.items()}
        return {**values, **self.case.constants(self.x.astype(np.float64), wide)}


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
