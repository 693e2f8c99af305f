"""`PlainArrays`: datapoints with the tensors of a framework replaced by arrays, which workers can lend."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, final

from .._errors import ComponentError
from ..flow._epoch import Epoch
from ..flow._node import DROPPED, Effect
from ..flow._user_code import record_origin
from ..operators._proxy_flow import ProxyDataFlow
from ._nested import mapped

__all__ = ["PlainArrays"]


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
        raise ComponentError(
            f"component {'.'.join(map(str, path)) or 'of the datapoint'} is a tensor on {place}. Workers "
            "exchange dense tensors on the CPU: return x.cpu(), and let the loader copy batches with device="
        )
    if value.requires_grad or (value.dtype.itemsize < 2 and value.dtype.is_floating_point):
        return value  # it is sent as PyTorch pickles it
    return value if value.dtype is torch.bfloat16 else value.resolve_conj().resolve_neg().numpy()
