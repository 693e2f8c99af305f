"""Restoring the averages that the callback `EMA` keeps, in place of the weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import final

import numpy as np

from towerpack_callbacks import averaged_variables

from .._errors import RestoreError
from ._variable_names import NameMap

__all__ = ["MissingAveragesError", "put_averages"]


@final
class MissingAveragesError(RestoreError):
    """Averages were asked for, but the values have none for any variable of the graph."""


def put_averages(
    values: Mapping[str, np.ndarray], names: NameMap, variables: Collection[str], source: str
) -> dict[str, np.ndarray]:
    """Returns the renamed values, with the averages in place of the weights that have one.

    Args:
        values: arrays by their names in the checkpoint.
        names: makes names of values into names of variables.
        variables: names of the graph's variables; averages that are themselves among them are kept, too.
        source: where the values come from, for messages.

    Raises:
        MissingAveragesError: no variable of the graph has an average among the values.
    """
    try:
        averaged = averaged_variables(values)
    except ValueError as error:
        raise MissingAveragesError(
            f"ema=True, but {source} holds no averages. {error} Train with EMA(), or leave ema=True out."
        ) from None
    replaced = names.apply({name: value for name, value in averaged.items() if values.get(name) is not value})
    if replaced.keys().isdisjoint(variables):
        raise MissingAveragesError(
            f"ema=True, but {source} holds averages of {', '.join(sorted(replaced))} alone, and none of them "
            "is a variable of this graph. Give rename= if they have other names here, or leave ema=True out."
        )
    kept = names.apply({name: value for name, value in values.items() if name not in averaged})
    own = {name: value for name, value in kept.items() if name in variables}
    return {**own, **names.apply(averaged)}
