"""`MapDataComponent` and `SelectComponent`: change one component of each datapoint, or select some."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, final

import numpy as np

from .._errors import ArgumentTypeError, ComponentError
from ._map_data import MapData

__all__ = ["MapDataComponent", "OfComponent", "SelectComponent", "no_component"]


class MapDataComponent(MapData):
    """Replaces one component of each datapoint; `None` drops the datapoint.

    The datapoint keeps its type: a tuple stays a tuple.

    Args:
        ds: the flow below.
        func: called with the component, and with `rng=True` also with a `numpy.random.Generator`.
        index: the component: a position in a list or tuple, or a key of a dict.
        rng: as in `MapData`.
        drops: as in `MapData`.

    Raises:
        ArgumentTypeError: `func` cannot be called, or `index` cannot be a key.
        ComponentError: a datapoint has no such component; raised while iterating.

    Example:
        >>> list(MapDataComponent([[1, "a"], [2, "b"]], str.upper, index=1))
        [[1, 'A'], [2, 'B']]
    """

    def __init__(
        self,
        ds: Any,
        func: Callable[..., Any],
        index: Hashable = 0,
        *,
        rng: bool = False,
        drops: bool = False,
    ) -> None:
        """Stores the arguments; calls nothing."""
        if not isinstance(index, Hashable):
            raise ArgumentTypeError(f"index is a position or a key of a dict; received {index!r}")
        super().__init__(ds, OfComponent(func, index) if callable(func) else func, rng=rng, drops=drops)


@final
class OfComponent:
    """Adapts a function of a component to a function of a datapoint.

    Args:
        func: called with the component.
        index: position or key of the component.
    """

    def __init__(self, func: Callable[..., Any], index: Any) -> None:
        """Stores the arguments."""
        self._func = func
        self._index = index
        self.__qualname__ = f"{getattr(func, '__qualname__', type(func).__name__)}, index={index!r}"

    def __call__(self, datapoint: Any, *rng: np.random.Generator) -> Any:
        """Returns the datapoint with the changed component; `None` if `func` drops it."""
        index = self._index
        try:
            component = datapoint[index]
        except (LookupError, TypeError) as error:
            raise no_component(datapoint, index, "index= is a position") from error
        component = self._func(component, *rng)
        if component is None:
            return None
        if not isinstance(datapoint, tuple):
            datapoint[index] = component  # the list or dict belongs to this pass: sources yield copies
            return datapoint
        members = list(datapoint)
        members[index] = component
        return type(datapoint)._make(members) if hasattr(datapoint, "_make") else tuple(members)


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


def no_component(datapoint: Any, index: Any, argument: str) -> ComponentError:
    """Returns the error for a datapoint without the component named by an argument."""
    return ComponentError(
        f"no component {index!r} in this datapoint, which is {_shape_of(datapoint)}; "
        f"{argument} in a list or tuple, a key of a dict"
    )


def _shape_of(datapoint: Any) -> str:
    if isinstance(datapoint, dict):
        return f"a dict with the keys {list(datapoint)!r}"
    if isinstance(datapoint, (list, tuple)):
        return f"a {type(datapoint).__name__} of {len(datapoint)}"
    return f"of type {type(datapoint).__name__}, not list, tuple or dict"
