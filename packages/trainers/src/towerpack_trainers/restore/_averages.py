"""Restores the moving averages of the callback `EMA` instead of the weights."""

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
    """Averages were requested, but the values have none for any variable of the graph."""


def put_averages(
    values: Mapping[str, np.ndarray], names: NameMap, variables: Collection[str], source: str
) -> dict[str, np.ndarray]:
    """Returns the renamed values, with averages instead of weights where available.

    Args:
        values: arrays by their names in the checkpoint.
        names: converts names of values to names of variables.
        variables: the names of the graph's variables; averages among them are kept as well.
        source: the origin of the values, for messages.

    Raises:
        MissingAveragesError: no variable of the graph has an average among the values.
    """
    try:
        averaged = averaged_variables(values)
    except ValueError as error:
        raise MissingAveragesError(
            f"ema=True, but {source} holds no averages. {error} Train with EMA(), or remove ema=True."
        ) from None
    replaced = names.apply({name: value for name, value in averaged.items() if values.get(name) is not value})
    if replaced.keys().isdisjoint(variables):
        raise MissingAveragesError(
            f"ema=True, but {source} holds only averages of {', '.join(sorted(replaced))}, which are not "
            "variables of this graph. Use rename= if they have other names here, or remove ema=True."
        )
    kept = names.apply({name: value for name, value in values.items() if name not in averaged})
    own = {name: value for name, value in kept.items() if name in variables}
    return {**own, **names.apply(averaged)}
