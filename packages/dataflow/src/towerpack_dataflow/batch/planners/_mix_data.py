"""`MixData`: mixes several flows in given shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ArgumentTypeError, EmptyFlowError
from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._trace import Origin
from ...sources._from_iterable import as_dataflow
from ._mixture import Mixture
from ._planned_flow import one, require_addressable

__all__ = ["MixData"]


@final
class MixData(DataFlow):
    """Takes datapoints from several flows in given shares, which hold after each datapoint.

    The order is not random: after any number of datapoints of a phase, each flow has yielded its share of
    them, rounded down or up. Each flow continues from its position in the last pass; after the end of its
    epoch, its next one follows, in another order if it shuffles.

    Args:
        flows: addressable flows.
        weights: one number per flow, of which only the ratios count; or a schedule of them, `{first
            datapoint: weights}`, counted from epoch 0 on. Ratios are kept exactly up to denominators of
            10,000, others to one part in 100,000.
        size: datapoints in a pass; by default, the sum of the lengths of `flows`.

    Raises:
        ArgumentError: `flows` is empty; or weights are not numbers from 0 up, one per flow.
        ArgumentTypeError: `flows` is not a list or tuple.
        EmptyFlowError: a flow with a share has no datapoints.
        NotAddressableError: a flow is a stream.

    Example:
        >>> flow = MixData([["a"], ["x", "y"]], {0: [3, 1], 8: [1, 1]}, size=12)
        >>> "".join(flow)
        'aaaxaaayaxay'
    """

    addressable = True

    def __init__(
        self,
        flows: Sequence[Any],
        weights: Sequence[float] | Mapping[int, Sequence[float]],
        size: int | None = None,
    ) -> None:
        """Computes the order of the flows."""
        if not isinstance(flows, (list, tuple)):
            raise ArgumentTypeError(f"MixData takes a list of flows; received {type(flows).__name__}")
        self._flows = [as_dataflow(flow) for flow in flows]
        if not self._flows:
            raise ArgumentError("MixData takes at least one flow; received none")
        for flow in self._flows:
            require_addressable(flow, "MixData")
        self._mixture = Mixture(weights, len(self._flows))
        for number in self._mixture.used():
            if not len(self._flows[number]):
                raise EmptyFlowError(f"flow {number} of MixData has a share, but no datapoints")
        lengths = sum(len(flow) for flow in self._flows)
        self._size = lengths if size is None else arguments.count("size", size)

    def __len__(self) -> int:
        """Returns the number of datapoints in a pass."""
        return self._size

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the flow at this index."""
        number, given = self._mixture.at(int(epoch) * self._size + index)
        flow = self._flows[number]
        passes, offset = divmod(given, len(flow))
        return [Origin(flow, offset, self._below(epoch, number, passes))]

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the length of a pass and the shares."""
        return {"size": self._size, "weights": repr(self._mixture)}

    def children(self) -> tuple[DataFlow, ...]:
        """Returns the flows below; one flow may be among them twice."""
        return tuple(self._flows)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return (self._datapoint(epoch, index) for index in range(start, self._size))

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        (origin,) = self.origins(epoch, index)
        return one(origin.flow, origin.epoch, origin.index, self._name())  # type: ignore[arg-type]

    def _name(self) -> str:
        return f"MixData({len(self._flows)} flows)"
