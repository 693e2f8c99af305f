"""The call of a layer: completes its arguments and runs its function in its scope."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ._argscope import scoped_defaults
from ._compute_dtype import cast_arguments
from ._layer_info import LayerInfo
from ._layer_logging import log_shapes
from ._layer_scope import check_finished, check_graph_mode, layer_scope, name_output
from ._old_spellings import modern_call, warn_in_user_code
from ._scoped_calls import note_call

__all__ = ["build_layer"]


def build_layer(info: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Builds a layer in the current graph and returns the result of its function.

    Args:
        info: the layer.
        args: positional arguments, the layer's name first, then the input.
        kwargs: keyword arguments.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
        LayerNameError: a required name is missing.
        LayerArgumentError: the arguments do not match the layer's signature.
        DuplicateLayerError: the name is already used.
    """
    name, args = info.split_name(args)
    call = info.name if name is None else f"{info.name}({name!r})"
    check_graph_mode(call)
    args, kwargs = modern_call(call, info, args, kwargs)
    defaults = scoped_defaults(info)
    kwargs = info.complete(call, args, kwargs, {argument: value for argument, (value, _) in defaults.items()})
    if name is None:
        result, scope = _compute(info, args, kwargs), str(tf.get_variable_scope().name)
        check_finished(call, result)
    else:
        if info.use_scope is False:
            _warn_of_name(info.name, name)
        with layer_scope(info.name, name) as scope:
            result = name_output(call, _compute(info, args, kwargs))
        if info.log_shape:
            log_shapes(scope, args[0] if args else kwargs[next(iter(info.signature.parameters))], result)
    if defaults:
        note_call(info.name, scope, defaults, kwargs)
    return result


def _compute(info: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = cast_arguments(args, kwargs)
    return info.function(*args, **kwargs)


def _warn_of_name(layer: str, name: str) -> None:
    warn_in_user_code(
        f"{layer}({name!r}): the layer is registered with use_scope=False, for calls without a name. Remove "
        "the name, or register it with use_scope=None.",
        UserWarning,
    )
