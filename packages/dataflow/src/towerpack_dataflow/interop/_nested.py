"""Nested values at any depth: lists, tuples, named tuples and dicts, and batches of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from .._errors import BatchError, ComponentError
from ..batch._batch_data import BatchData
from ..batch._collate import Collator
from ..flow._columns import Columns, assembled
from ..flow._epoch import Epoch
from ..flow._node import DROPPED, Effect
from ..flow._user_code import origin_of_errors, record_origin
from ..operators._proxy_flow import ProxyDataFlow

__all__ = ["NestedBatchData", "PlainArrays", "joined", "leaves", "mapped", "refused"]


def mapped(value: Any, function: Callable[[Any, tuple[Any, ...]], Any], path: tuple[Any, ...] = ()) -> Any:
    """Returns a copy of nested lists, tuples, named tuples and dicts, with a function applied to the leaves.

    Subclasses of these types become the types themselves, as in batches.

    Args:
        value: the nested value.
        function: called with a leaf and its path of keys.
        path: the path of `value`.
    """
    if isinstance(value, dict):
        return {key: mapped(part, function, (*path, key)) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [mapped(part, function, (*path, place)) for place, part in enumerate(value)]
        return assembled(type(value), (), parts)
    return function(value, path)


def refused(path: tuple[Any, ...], problem: str) -> ComponentError:
    """Returns the error for a leaf that a framework or a worker cannot take."""
    return ComponentError(f"component {'.'.join(map(str, path)) or 'of the datapoint'} is {problem}")


def leaves(value: Any, found: list[Any], path: tuple[Any, ...] = ()) -> Any:
    """Appends the leaves of a nested value to `found` and returns its structure, for `joined`.

    Structures of values with the same containers, keys and lengths are equal.

    Args:
        value: the nested value.
        found: receives pairs of a path and a leaf.
        path: the path of `value`.
    """
    kind = type(value)
    if isinstance(value, dict):
        parts = [leaves(part, found, (*path, key)) for key, part in value.items()]
        return kind, tuple(value), tuple(parts)
    if isinstance(value, (list, tuple)):
        parts = [leaves(part, found, (*path, place)) for place, part in enumerate(value)]
        return kind, None, tuple(parts)
    found.append((path, value))
    return None


def joined(structure: Any, values: Any) -> Any:
    """Returns a nested value of a structure from `leaves`, with the next leaves of an iterator."""
    if structure is None:
        return next(values)
    kind, keys, below = structure
    parts = [joined(part, values) for part in below]
    return assembled(kind, keys, parts)


@final
class NestedBatchData(BatchData):
    """Stacks the leaves of nested datapoints; `BatchData` stacks the components of flat ones.

    A datapoint may also be a single array or number. Python's integers become int64, as in PyTorch.
    """

    def _columns_below(self) -> Columns | None:
        columns = self.ds._columns()
        return None if columns is None or columns.integers else columns  # integers would be int32

    def _stacked(self, below: Epoch, wanted: range) -> Any:
        datapoints = (self.ds._datapoint(below, number) for number in wanted)
        return next(self._stacks(datapoints, wanted.start))

    def _collated(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = self._first(epoch, start)
        return self._stacks(self.ds._datapoints(self._below(epoch), first), first)

    def _stacks(self, datapoints: Iterator[Any], first: int) -> Iterator[Any]:
        """Yields batches of datapoints; `first` is the number of the first one."""
        collator = Collator(self._batch_size, False, self._own_memory(), first)
        structure: Any = None
        with origin_of_errors(self):
            for datapoint in datapoints:
                found: list[tuple[Any, Any]] = []
                own = leaves(datapoint, found)
                del datapoint
                if not collator.count:
                    structure = own
                elif own != structure:
                    raise BatchError(
                        f"cannot batch: datapoint {first + collator.count} of the pass has the structure "
                        f"{_outline(own)}; the batch began with {_outline(structure)}. Pass collate="
                    )
                collator.add({".".join(map(str, path)): _wide(leaf) for path, leaf in found})
                del found
                if collator.full:
                    first += collator.count
                    yield self._finished(joined(structure, iter(collator.take().values())))
            if self._remainder and collator.count:
                yield self._finished(joined(structure, iter(collator.take().values())))

    def _finished(self, batch: Any) -> Any:
        return batch


def _wide(leaf: Any) -> Any:
    return np.int64(leaf) if type(leaf) is int else leaf


def _outline(structure: Any) -> str:
    """Returns the containers of a structure, for messages."""
    if structure is None:
        return "value"
    kind, keys, parts = structure
    names = [f"{key}: " for key in keys] if keys else [""] * len(parts)
    return f"{kind.__name__}({', '.join(name + _outline(part) for name, part in zip(names, parts))})"


@final
class PlainArrays(ProxyDataFlow):
    """Replaces the tensors of PyTorch in each datapoint by arrays of the same memory.

    It takes no place in the tree of flows, so states and random numbers are those of the flow below.

    Args:
        ds: the flow below.

    Raises:
        ComponentError: a tensor is on another device than the CPU, or is sparse or quantized; raised while
            iterating.
    """

    effect = Effect(keeps_place=True, steady=True)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return map(self._converted, self.ds._datapoints(self._below(epoch), start))

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self._converted(super()._datapoint(epoch, index))

    def _converted(self, datapoint: Any) -> Any:
        if datapoint is DROPPED:
            return datapoint
        try:
            return mapped(datapoint, _array_of)
        except Exception as error:
            record_origin(error, self)
            raise


def _array_of(value: Any, path: tuple[Any, ...]) -> Any:
    """Returns a tensor as an array of the same memory, and other values unchanged.

    It imports nothing: workers of a flow without tensors run without PyTorch.

    Args:
        value: a tensor, or any other value.
        path: its place in the datapoint.

    Raises:
        ComponentError: the tensor is on another device than the CPU, or is sparse or quantized.
    """
    if not type(value).__module__.startswith("torch"):
        return value
    torch = sys.modules["torch"]
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
        place = value.device if value.device.type != "cpu" else "the CPU, but not dense"
        raise refused(
            path,
            f"a tensor on {place}. Workers exchange dense tensors on the CPU: return x.cpu(), and let the "
            "loader copy batches with device=",
        )
    if value.requires_grad or (value.dtype.itemsize < 2 and value.dtype.is_floating_point):
        return value  # it is sent as PyTorch pickles it
    return value if value.dtype is torch.bfloat16 else value.resolve_conj().resolve_neg().numpy()
