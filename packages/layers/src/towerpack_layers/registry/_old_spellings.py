"""Translates argument names of Tensorpack to the current names of layers.

One table serves all layers. A name is translated only if the layer takes the new name and has no argument
with the old name, since a custom layer may have an argument such as `stride`.
"""

from __future__ import annotations

import numbers
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import LayerArgumentError
from ._layer_info import LayerInfo

__all__ = ["modern_arguments", "modern_call", "warn_in_user_code"]

_NAMES = {
    "W_init": "kernel_initializer",
    "b_init": "bias_initializer",
    "borderMode": "border_mode",
    "decay": "momentum",
    "gamma_init": "gamma_initializer",
    "is_training": "training",
    "keep_prob": "rate",
    "kernel_shape": "kernel_size",
    "nl": "activation",
    "out_channel": "filters",
    "out_dim": "units",
    "shape": "pool_size",
    "stride": "strides",
    "use_bias": "center",
    "use_local_stat": "training",
    "use_scale": "scale",
}
_VALUES = {("ema_update", "default"): "collection"}
_ARGUMENTS_WITH_VALUES = {argument for argument, _ in _VALUES}

_WHEEL = os.path.dirname(os.path.dirname(__file__)) + os.sep


def modern_call(
    call: str, layer: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns a call's arguments by their current names, with a warning for each old spelling.

    Args:
        call: the call's label, for warnings and errors.
        layer: the layer.
        args: positional arguments, the input first.
        kwargs: keyword arguments.

    Raises:
        LayerArgumentError: an argument is given in both spellings.
        ValueError: the value of an old spelling cannot be translated.
    """
    if layer.old_positional and len(args) > layer.positional_count:
        split = layer.positional_count
        found = dict(zip(layer.old_positional, args[split:]))
        if twice := found.keys() & kwargs.keys():
            raise LayerArgumentError(
                f"{call}: {', '.join(sorted(twice))} is given by position and by keyword."
            )
        args, kwargs = (*args[:split], *args[split + len(found) :]), {**found, **kwargs}
    return args, modern_arguments(call, layer, kwargs)


def modern_arguments(call: str, layer: LayerInfo, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments by their current names, with a warning for each old spelling.

    Args:
        call: the call's label, for warnings and errors.
        layer: the layer.
        kwargs: keyword arguments.

    Raises:
        LayerArgumentError: an argument is given in both spellings.
        ValueError: the value of an old spelling cannot be translated.
    """
    if kwargs.keys().isdisjoint(_NAMES) and kwargs.keys().isdisjoint(_ARGUMENTS_WITH_VALUES):
        return kwargs
    modern: dict[str, Any] = {}
    for argument, value in kwargs.items():
        name = _new_name(layer, argument)
        if name != argument and (name in kwargs or name in modern):
            raise LayerArgumentError(
                f"{call}: {argument}= is an old spelling of {name}=, which is also given: give only one of "
                "them."
            )
        modern[name] = _new_value(call, layer, argument, name, value)
    return modern


def warn_in_user_code(message: str, category: type[Warning]) -> None:
    """Issues a warning for the line outside of this wheel that called a layer."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_WHEEL):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _new_name(layer: LayerInfo, argument: str) -> str:
    name = _NAMES.get(argument, argument)
    return argument if layer.takes(argument) or name not in layer.arguments else name


def _new_value(call: str, layer: LayerInfo, argument: str, name: str, value: Any) -> Any:
    """Returns the current value of an argument, and warns if argument or value is an old spelling."""
    if isinstance(value, str) and (argument, value) in _VALUES and argument in layer.arguments:
        new = _VALUES[argument, value]
        _warn_of(f"{call}: {argument}={value!r}", f"{argument}={new!r}")
        return new
    if name == argument:
        return value
    if argument in _CONVERSIONS:
        value, text = _CONVERSIONS[argument](call, value)
        _warn_of(f"{call}: {argument}=, also as a positional number,", f"{name}={text}")
    else:
        _warn_of(f"{call}: {argument}=", f"{name}=")
    return value


def _warn_of(old: str, new: str) -> None:
    warn_in_user_code(f"{old} is an old spelling; write {new}", DeprecationWarning)


def _rate(call: str, keep_prob: Any) -> tuple[Any, str]:
    """Returns the fraction to drop and its spelling."""
    if tf.is_tensor(keep_prob):
        return 1 - keep_prob, "1 - keep_prob"
    is_number = isinstance(keep_prob, numbers.Real) and not isinstance(keep_prob, bool)
    if not is_number or not 0 < keep_prob <= 1:
        raise ValueError(
            f"{call}: keep_prob, the probability to keep an element, must be a number with "
            f"0 < keep_prob <= 1, received {keep_prob!r}."
        )
    return 1 - keep_prob, f"{1 - keep_prob:g}"


_CONVERSIONS: Mapping[str, Callable[[str, Any], tuple[Any, str]]] = {"keep_prob": _rate}
