"""The table of layers by name, the decorator that registers a function as a layer."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, final, overload

import tensorflow.compat.v1 as tf

from .._errors import DuplicateRegistrationError
from ._argscope import note_call
from ._layer_info import (
    Layer,
    LayerInfo,
    OptionalNameLayer,
    layer_info,
    modern_call,
    scoped_defaults,
    warn_in_user_code,
)
from ._layer_scope import (
    cast_arguments,
    check_finished,
    check_graph_mode,
    layer_scope,
    log_shapes,
    name_output,
)

__all__ = [
    "REGISTRY",
    "RESERVED",
    "LayerRegistry",
    "get_registered_layer",
    "layer_register",
    "register_alias",
    "register_layer",
]


P = ParamSpec("P")
R = TypeVar("R")
LayerT = TypeVar("LayerT")


@final
class LayerRegistry:
    """A table of layers by name, written by `register_layer` and read by `LinearWrap`."""

    def __init__(self) -> None:
        self._layers: dict[str, Layer[..., Any]] = {}
        self._ambiguous: set[str] = set()

    def add_alias(self, name: str, layer: Layer[..., Any]) -> None:
        """Adds an alternative name of a layer."""
        self._layers[name] = layer

    def add(self, layer: Layer[..., Any]) -> None:
        """Adds a layer; a function redefined by a reload or a notebook cell replaces the old one.

        If a function makes several layers, they share a name. They can be called and passed to `argscope`,
        but the name alone then identifies none of them. A lambda has no name for lookups.

        Raises:
            DuplicateRegistrationError: another function has this name, or `LinearWrap` has a method with this
                name.
        """
        if not layer.layer_name.isidentifier():
            return
        if layer.layer_name in RESERVED:
            raise DuplicateRegistrationError(
                f"A layer cannot be named {layer.layer_name!r}: LinearWrap has a method of this name, which "
                f"would hide it. Rename the function."
            )
        known = self._layers.get(layer.layer_name)
        if known is not None and _origin(known) != _origin(layer):
            raise DuplicateRegistrationError(
                f"A layer {layer.layer_name!r} is already registered, by {_origin(known)}; {_origin(layer)} "
                f"cannot take the same name. Rename one of the two functions."
            )
        if known is not None and _code(known) is _code(layer):
            self._ambiguous.add(layer.layer_name)
        else:
            self._ambiguous.discard(layer.layer_name)
        self._layers[layer.layer_name] = layer

    def forget(self, name: str) -> None:
        """Removes the layer with this name, if any, so that another function can use the name."""
        self._layers.pop(name, None)

    def get(self, name: str) -> Layer[..., Any] | None:
        """Returns the layer of this name, or `None`.

        Raises:
            DuplicateRegistrationError: one function has made several layers of this name.
        """
        if name in self._ambiguous:
            raise DuplicateRegistrationError(
                f"The name {name!r} refers to several layers, made by {_origin(self._layers[name])}. Call "
                "the layer object directly; on a LinearWrap, write .apply2(layer, 'its name', ...)."
            )
        return self._layers.get(name)

    def names(self) -> list[str]:
        """Returns the names of all layers, sorted."""
        return sorted(self._layers)

    def similar(self, name: str) -> list[str]:
        """Returns the names most similar to `name`, best first."""
        folded = {known.lower(): known for known in self._layers}
        return [folded[match] for match in difflib.get_close_matches(name.lower(), folded, cutoff=0.5)]


RESERVED = ("apply", "apply2", "print_tensor", "tensor", "tf")
"""The attributes of `LinearWrap` besides layers."""

REGISTRY = LayerRegistry()
"""The layers of this process: a table of functions, filled by the import of the modules that define them."""


@overload
def register_layer(function: Callable[P, R], /) -> Layer[Concatenate[str, P], R]: ...
@overload
def register_layer(
    *, log_shape: bool = ..., use_scope: Literal[True] = ..., old_positional: Sequence[str] = ...
) -> Callable[[Callable[P, R]], Layer[Concatenate[str, P], R]]: ...
@overload
def register_layer(
    *, log_shape: bool = ..., use_scope: Literal[False] | None, old_positional: Sequence[str] = ...
) -> Callable[[Callable[P, R]], OptionalNameLayer[P, R]]: ...
def register_layer(
    function: Callable[..., Any] | None = None,
    /,
    *,
    log_shape: bool = False,
    use_scope: bool | None = True,
    old_positional: Sequence[str] = (),
) -> Any:
    """Registers a function of a tensor as a layer, for calls with a name, `argscope` and `LinearWrap`.

    The function is written without the name: its first parameter is the input. The layer is called with the
    name before the input; the function then runs in a variable scope of that name, so `tf.get_variable("W")`
    creates `<name>/W`, and its output is named `<name>/output`. Two layers with the same name are an error
    unless variables are reused.

    Use it as `@register_layer` or with options, `@register_layer(log_shape=True)`. `layer_register` is an
    alias.

    Arguments with the same names as in the layers of this wheel are also accepted in the spelling of older
    code (`nl=` for `activation=`), with a `DeprecationWarning`.

    Args:
        function: the function; passed by the decorator syntax.
        log_shape: log the shapes of input and output to the logger `towerpack_layers`, once per graph and
            layer.
        use_scope: `True`: the layer's name is required. `None`: the name is optional; without it, no scope is
            opened and the output keeps its own name. `False`: the name is discouraged; a call with a name
            works, with a `UserWarning`.
        old_positional: names of arguments, or their aliases, for further positional arguments in older code.

    Raises:
        DuplicateRegistrationError: another function with this name is registered, or `LinearWrap` has a
            method with this name.
        TypeError: the function has no name, no signature or no parameter for its input, is a generator or a
            coroutine, or `use_scope` is invalid.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LinearWrap, register_layer
        >>> @register_layer
        ... def Scale(x, init=1.0):
        ...     return x * tf.get_variable("alpha", [], initializer=tf.constant_initializer(init))
        >>> with tf.Graph().as_default():
        ...     LinearWrap(tf.ones([2])).Scale("s0").Scale("s1", init=2.0)().name
        ...     [v.name for v in tf.trainable_variables()]
        's1/output:0'
        ['s0/alpha:0', 's1/alpha:0']
    """
    if use_scope is not None and not isinstance(use_scope, bool):
        raise TypeError(f"register_layer: use_scope must be True, False or None, received {use_scope!r}.")
    options = log_shape, use_scope, tuple(old_positional)
    if function is None:
        return lambda function: _register(function, *options)
    return _register(function, *options)


layer_register = register_layer


def get_registered_layer(name: str) -> Layer[..., Any] | None:
    """Returns the layer registered under a name, or `None`.

    Raises:
        DuplicateRegistrationError: one function has made several layers of this name.

    Example:
        >>> from towerpack_layers import Conv2D, get_registered_layer
        >>> get_registered_layer("Conv2D") is Conv2D
        True
    """
    return REGISTRY.get(name)


def register_alias(name: str, layer: LayerT) -> LayerT:
    """Registers a layer under another name and returns it."""
    REGISTRY.add_alias(name, cast(Layer[..., Any], layer))
    return layer


def _register(
    function: Callable[..., Any], log_shape: bool, use_scope: bool | None, old_positional: tuple[str, ...]
) -> Layer[..., Any]:
    _check_function(function)
    info = LayerInfo(function.__name__, function, log_shape, use_scope, old_positional)
    if not info.signature.parameters:
        raise TypeError(f"register_layer: {info.name} needs a first parameter, its input; it has none.")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _build(info, args, kwargs)

    layer = cast(Layer[..., Any], call)
    layer.layer_name, layer.layer_info = info.name, info
    if use_scope:
        vars(call)["__signature__"] = _with_name(info.signature)
    REGISTRY.add(layer)
    return layer


def _build(info: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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


def _check_function(function: Any) -> None:
    if not callable(function) or not isinstance(getattr(function, "__name__", None), str):
        raise TypeError(
            "register_layer needs a function with a name, which becomes the layer's; received "
            f"{function!r}. Write a function that calls it: def MyLayer(x, ...): return ..."
        )
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_kind(function) for is_kind in kinds):
        raise TypeError(
            f"register_layer: {function.__name__} is a generator or a coroutine, which would create "
            "variables outside of the layer's scope. Return a tensor or a list of tensors."
        )
    try:
        inspect.signature(function)
    except ValueError:
        raise TypeError(
            f"register_layer: {function!r} has no readable signature. Write a function that calls it."
        ) from None


def _with_name(signature: inspect.Signature) -> inspect.Signature:
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_ONLY, annotation="str")
    others = [parameter for parameter in signature.parameters.values() if parameter.name != "name"]
    return signature.replace(parameters=[name, *others])


def _origin(layer: Layer[..., Any]) -> str:
    info = layer_info(layer)
    assert info is not None
    return f"{info.function.__module__}.{info.function.__qualname__}"


def _code(layer: Layer[..., Any]) -> Any:
    """Returns a key shared by all functions of one `def`, until its module is reloaded."""
    info = layer_info(layer)
    assert info is not None
    return getattr(inspect.unwrap(info.function), "__code__", info.function)
