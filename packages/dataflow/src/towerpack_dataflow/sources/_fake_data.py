"""`FakeData`: random arrays, for measurements and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._node import Effect

__all__ = ["FakeData"]

Domain = tuple[float, float]


@final
class FakeData(DataFlow):
    """Yields lists of random arrays of given shapes; addressable.

    Args:
        shapes: the shape of each component.
        size: datapoints in a pass.
        random: whether all datapoints differ. Otherwise all are equal, and cost almost nothing.
        dtype: dtype of all components, or a list with one per component.
        domain: lower bound and exclusive upper bound for all components, such as `(0, 1)`, or a list with one
            pair per component.

    Raises:
        ArgumentError: `size` is not an integer above 0, a shape or a domain is invalid, or a list has another
            length than `shapes`.
        ArgumentTypeError: `random` is not a boolean, or a dtype is unknown to NumPy.

    Example:
        >>> flow = FakeData([[28, 28], []], dtype=["float32", "int64"], domain=[(0, 1), (0, 10)])
        >>> image, label = next(iter(flow))
        >>> image.shape, image.dtype, label.shape, label.dtype
        ((28, 28), dtype('float32'), (), dtype('int64'))
    """

    addressable = True
    effect = Effect(steady=True)

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: Any = "float32",
        domain: Domain | Sequence[Domain] = (0, 1),
    ) -> None:
        """Checks and stores the arguments; draws nothing."""
        # A shape is any iterable, such as a tf.TensorShape.
        if not isinstance(shapes, (list, tuple)) or not all(isinstance(one, Iterable) for one in shapes):
            raise ArgumentError(f"shapes is a list of shapes, one for each component; received {shapes!r}")
        self._shapes = [tuple(arguments.count("an axis", axis, least=0) for axis in one) for one in shapes]
        self._size = arguments.count("size", size)
        self._random = arguments.flag("random", random)
        self._dtype = [_dtype(one) for one in self._for_each("dtype", dtype, isinstance(dtype, list))]
        each = isinstance(domain, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in domain)
        self._domain = [_domain(one) for one in self._for_each("domain", domain, each)]

    def __len__(self) -> int:
        """Returns the given size."""
        return self._size

    def _datapoint(self, epoch: Epoch, index: int) -> list[np.ndarray]:
        return self._drawn(epoch.rng(index) if self._random else self._common(epoch))

    def _datapoints(self, epoch: Epoch, start: int) -> Any:
        if self._random:
            return (self._drawn(epoch.rng(index)) for index in range(start, self._size))
        one = self._drawn(self._common(epoch))
        return (list(one) for _ in range(start, self._size))

    @staticmethod
    def _common(epoch: Epoch) -> np.random.Generator:
        """Returns the generator shared by all datapoints of all passes."""
        return Epoch(0, epoch.seed, epoch.path).rng()

    def _drawn(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [
            np.asarray(rng.random(shape) * (high - low) + low).astype(dtype)
            for shape, dtype, (low, high) in zip(self._shapes, self._dtype, self._domain)
        ]

    def _for_each(self, name: str, value: Any, given_for_each: bool) -> list[Any]:
        """Returns a value for each component."""
        if not given_for_each:
            return [value] * len(self._shapes)
        if len(value) != len(self._shapes):
            raise ArgumentError(
                f"{name} has {len(value)} members, and shapes has {len(self._shapes)}; give one for each "
                "component, or one for all"
            )
        return list(value)


def _dtype(value: Any) -> np.dtype:
    try:
        dtype: np.dtype = np.dtype(value)
        return dtype
    except TypeError:
        raise ArgumentTypeError(
            f"dtype is the name of a NumPy dtype, such as 'float32'; received {value!r}"
        ) from None


def _domain(value: Any) -> Domain:
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not low <= high:
        raise ArgumentError(f"a domain is a pair (least, most) of numbers; received {value!r}")
    return low, high
