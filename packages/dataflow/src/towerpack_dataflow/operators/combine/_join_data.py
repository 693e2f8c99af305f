"""Several flows side by side: `JoinData` joins their components, `ZipData` keeps whole datapoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from ..._errors import JoinError, UnknownLengthError
from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._resume_marks import replayed
from ...flow._trace import Origin
from ...flow._user_code import origin_of_errors, record_origin
from ._combined_flow import CombinedFlow

__all__ = ["JoinData", "ZipData"]


class _SideBySide(CombinedFlow):
    """Combines datapoints of the same index from several flows; abstract.

    Args:
        df_lists: the flows.
    """

    def __len__(self) -> int:
        """Returns the length of the shortest flow.

        Raises:
            UnknownLengthError: the length of a flow is unknown.
        """
        lengths = self._lengths()
        if None in lengths:
            flow = self.df_lists[lengths.index(None)]
            raise UnknownLengthError._since(
                f"{self._name()} ends with its shortest flow, and the length of {flow._name()} is not known"
            )
        return min(length for length in lengths if length is not None)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if start and self._takes_turns():
            return replayed(self._name(), epoch, self._together(epoch, 0), start)
        return self._together(epoch, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        parts = tuple(self._member(epoch, place, index) for place in range(len(self.df_lists)))
        try:
            return self._put_together(parts)
        except Exception as error:
            record_origin(error, self)
            raise

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of all flows at this index."""
        return [Origin(flow, index, self._below(epoch, place)) for place, flow in enumerate(self.df_lists)]

    def _together(self, epoch: Epoch, start: int) -> Iterator[Any]:
        with origin_of_errors(self):
            yield from map(self._put_together, zip(*self._passes(epoch, [start] * len(self.df_lists))))

    def _put_together(self, parts: tuple[Any, ...]) -> Any:
        raise NotImplementedError


@final
class JoinData(_SideBySide):
    """Joins the datapoints of several flows, component by component; ends with the shortest flow.

    Lists and tuples become one list, dicts one dict. The same flow may appear several times; each place has a
    separate order and separate random numbers. The flow is addressable if all flows are.

    Args:
        df_lists: the flows, in the order of their components.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty.
        JoinError: datapoints are not all lists or all dicts, or two dicts have a key in common; raised while
            iterating.

    Example:
        >>> list(JoinData([[["a"], ["b"]], [[1, 2], [3, 4], [5, 6]]]))
        [['a', 1, 2], ['b', 3, 4]]
        >>> list(JoinData([[{"image": 0}], [{"label": 1}]]))
        [{'image': 0, 'label': 1}]
    """

    effect = Effect(passes_on=True, steady=True)

    def _put_together(self, parts: tuple[Any, ...]) -> Any:
        if isinstance(parts[0], dict):
            return _joined_dicts(parts)
        joined: list[Any] = []
        for part in parts:
            if not isinstance(part, (list, tuple)):
                raise _unlike(parts)
            joined += part
        return joined


@final
class ZipData(_SideBySide):
    """Yields lists of whole datapoints, one from each flow; ends with the shortest flow.

    `JoinData` joins their components instead. The same flow may appear several times; each place has a
    separate order and separate random numbers. The flow is addressable if all flows are.

    Args:
        df_lists: the flows, in the order of the lists.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty.

    Example:
        >>> list(ZipData([[["a"], ["b"]], [{"x": 1}, {"x": 2}]]))
        [[['a'], {'x': 1}], [['b'], {'x': 2}]]
    """

    effect = Effect(steady=True)

    def _put_together(self, parts: tuple[Any, ...]) -> Any:
        return list(parts)


def _joined_dicts(parts: tuple[Any, ...]) -> dict[Any, Any]:
    joined: dict[Any, Any] = {}
    for part in parts:
        if not isinstance(part, dict):
            raise _unlike(parts)
        if doubled := joined.keys() & part.keys():
            raise JoinError(
                f"cannot join: the keys {sorted(map(repr, doubled))} are in the datapoints of two flows; "
                "rename them in a MapData below, or keep the datapoints apart with ZipData"
            )
        joined.update(part)
    return joined


def _unlike(parts: tuple[Any, ...]) -> JoinError:
    kinds = ", ".join(type(part).__name__ for part in parts)
    return JoinError(
        f"cannot join datapoints of the types {kinds}: all have to be lists or tuples, or all dicts; make "
        "them alike in a MapData below, or keep the datapoints apart with ZipData"
    )
