"""`SelectComponent`: selects and reorders components."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, final

from .._errors import ArgumentTypeError
from ._map_component import no_component
from ._map_data import MapData

__all__ = ["SelectComponent"]


@final
class SelectComponent(MapData):
    """Replaces each datapoint by a list of some of its components, in the given order.

    Args:
        ds: the flow below.
        idxs: the components: positions in a list or tuple, or keys of a dict. Duplicates are allowed.

    Raises:
        ArgumentTypeError: `idxs` is not a list or tuple.
        ComponentError: a datapoint has no such component; raised while iterating.

    Example:
        >>> list(SelectComponent([["a", 0, "x"], ["b", 1, "y"]], [2, 0]))
        [['x', 'a'], ['y', 'b']]
        >>> list(SelectComponent([{"image": 0, "label": 1, "path": 2}], ["image", "label"]))
        [[0, 1]]
    """

    def __init__(self, ds: Any, idxs: Sequence[Any]) -> None:
        """Stores the arguments; reads nothing."""
        if not isinstance(idxs, (list, tuple, range)):
            raise ArgumentTypeError(
                f"SelectComponent takes a list of components, such as [1, 0]; received {idxs!r}"
            )
        self._idxs = list(idxs)
        super().__init__(ds, _Selection(self._idxs))


@final
class _Selection:
    """A function that selects components of a datapoint."""

    def __init__(self, idxs: list[Any]) -> None:
        self._idxs = idxs
        self._get = itemgetter(*idxs) if len(idxs) > 1 else None
        self.__qualname__ = repr(idxs)

    def __call__(self, datapoint: Any) -> list[Any]:
        try:
            if self._get is not None:
                return list(self._get(datapoint))
            return [datapoint[index] for index in self._idxs]
        except (LookupError, TypeError) as error:
            wrong = next(index for index in self._idxs if not _has(datapoint, index))
            raise no_component(datapoint, wrong, "one of idxs= is a position") from error


def _has(datapoint: Any, index: Any) -> bool:
    try:
        datapoint[index]
    except (LookupError, TypeError):
        return False
    return True
