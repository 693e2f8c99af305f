"""Warns about regularization costs that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

__all__ = ["warn_of_unused_costs"]

_log = logging.getLogger("towerpack_trainers")
_SHOWN = 8
# tf.get_variable makes the cost of the variable "fc/W" in the name scope "fc/W/Regularizer".
_OF_A_VARIABLE = "/Regularizer/"


def warn_of_unused_costs(costs: Sequence[tf.Tensor]) -> None:
    """Warns about collected regularization costs that no cost of the model depends on.

    Layers collect the costs of their regularizers in `tf.GraphKeys.REGULARIZATION_LOSSES`. They count only
    if the model adds them to its cost.

    Args:
        costs: the training costs of the model.
    """
    collected = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if not collected:
        return
    used = {op.name for op in find_ancestors(costs)}
    # Collected costs of tf.get_variable are built again, in the same name scope, at each use.
    places = {_place(name) for name in used if _OF_A_VARIABLE in name}
    names = [cost.op.name for cost in collected if hasattr(cost, "op")]
    unused = [_place(name) for name in names if name not in used and _place(name) not in places]
    if not unused:
        return
    unused = list(dict.fromkeys(unused))
    more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
    _log.warning(
        "These regularizers have no effect, since the cost does not depend on them: %s%s. Add "
        "towerpack_layers.regularize_cost_from_collection() to the cost, or remove the regularizers.",
        ", ".join(unused[:_SHOWN]),
        more,
    )


def _place(name: str) -> str:
    """Returns the variable of a regularization op's name; otherwise the name itself."""
    return name.partition(_OF_A_VARIABLE)[0]
