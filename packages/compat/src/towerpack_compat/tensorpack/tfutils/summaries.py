"""`tensorpack.tfutils.summary`: summaries with Tensorpack's names, such as `param-summary/fc/W-rms`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_callbacks as callbacks
from towerpack_layers import cached_name_scope, get_current_tower_context

from ..utils import logger

__all__ = ["add_activation_summary", "add_moving_summary", "add_param_summary", "add_tensor_summary"]

_DECAY = 0.95  # of `MovingAverageSummary`
_KINDS: dict[str, Callable[[Any], Any]] = {
    "scalar": tf.convert_to_tensor,
    "sparsity": tf.nn.zero_fraction,
    "mean": tf.reduce_mean,
    "rms": lambda x: tf.sqrt(tf.reduce_mean(tf.square(x))),
}


def _is_other_tower() -> bool:
    context = get_current_tower_context()
    return context is not None and not context.is_main_training_tower


def add_moving_summary(*args: tf.Tensor, decay: float = _DECAY, **named: Any) -> None:
    """Declares moving averages of scalars of the main tower; see `towerpack_callbacks.add_moving_summary`.

    Args:
        args: scalar tensors.
        decay: the weight of the old average in each step.
        named: `collection` of a custom `MovingAverageSummary`.
    """
    of_decay = {} if decay == _DECAY else {"collection": f"{callbacks.MOVING_SUMMARIES}/{decay}"}
    if not _is_other_tower():
        callbacks.add_moving_summary(*args, **named | of_decay)


def add_tensor_summary(
    x: Any,
    types: Sequence[str],
    name: str | None = None,
    collections: Sequence[str] | None = None,
    main_tower_only: bool = True,
) -> None:
    """Adds summaries of a tensor, named `<name>-rms` and so on; the one of a scalar is `<name>`.

    Args:
        x: the tensor.
        types: kinds of summaries: "histogram", "mean", "rms", "scalar", "sparsity".
        name: the name; None: the name of the op without its tower.
        collections: collections for the summaries; None: the summaries that are written each epoch, and none
            outside of the main tower.
        main_tower_only: whether to skip other towers.
    """
    if main_tower_only and _is_other_tower():
        return
    name = re.sub(r"tower\d+/", "", x.op.name) if name is None else name
    for kind in set(types):
        if kind == "histogram":
            tf.summary.histogram(f"{name}-histogram", x, collections)
        else:
            ending = "summary" if kind == "scalar" else kind
            tf.summary.scalar(f"{name}-{ending}", _KINDS[kind](x), collections)


def add_activation_summary(
    x: Any,
    types: Sequence[str] | None = None,
    name: str | None = None,
    collections: Sequence[str] | None = None,
) -> None:
    """Adds summaries of a layer's output below `activation-summary/`; see `add_tensor_summary`."""
    if x.shape.rank < 2:
        logger.warn("Cannot summarize scalar activation %s", x.name)
        return
    with cached_name_scope("activation-summary"):
        add_tensor_summary(x, types or ["sparsity", "rms", "histogram"], name, collections)


def add_param_summary(
    *summary_lists: tuple[str, Sequence[str]], collections: Sequence[str] | None = None
) -> None:
    """Adds summaries of trainable variables below `param-summary/`.

    Args:
        summary_lists: pairs of a regular expression and kinds of summaries; see `add_tensor_summary`.
        collections: collections for the summaries; None: the summaries that are written each epoch.
    """
    if _is_other_tower():
        return
    with cached_name_scope("param-summary"):
        for variable in tf.trainable_variables():
            for pattern, kinds in summary_lists:
                if re.fullmatch(pattern.removesuffix("$"), variable.op.name):
                    add_tensor_summary(variable, kinds, variable.op.name, collections)
