"""The description of a layer: its function, name and signature, the aliases and defaults of its arguments."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Any, ParamSpec, Protocol, TypeVar, final, overload

import attrs
import tensorflow.compat.v1 as tf

from .._errors import LayerArgumentError, LayerNameError

__all__ = [
    "OPEN_BLOCKS",
    "REQUIRED",
    "Layer",
    "LayerInfo",
    "OptionalNameLayer",
    "ScopeBlock",
    "layer_info",
    "modern_arguments",
    "modern_call",
    "scoped_defaults",
    "user_frame",
    "warn_in_user_code",
]


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

REQUIRED: Any = inspect.Parameter.empty
"""The default of an argument that each call needs, unless an `argscope` gives it.

A signature with this default has no default, so a call without the argument is refused. Type checkers accept
the call, because they do not know the defaults of an `argscope`.
"""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@final
@attrs.frozen(eq=False)
class LayerInfo:
    """A registered function and its signature.

    Args:
        name: the function's name, which is the layer's name for `LinearWrap` and `argscope`.
        function: the undecorated function; its first parameter is the input.
        log_shape: whether to log the shapes of input and output.
        use_scope: `True` if the layer's name is required, `None` if it is optional, `False` if it is
            discouraged.
        old_positional: the names of further positional arguments in older code.
    """

    name: str
    function: Callable[..., Any]
    log_shape: bool
    use_scope: bool | None
    old_positional: tuple[str, ...] = ()
    signature: inspect.Signature = attrs.field(init=False)

    @signature.default
    def _read_signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @property
    def arguments(self) -> list[str]:
        """The names of the keyword arguments, without the input."""
        parameters = list(self.signature.parameters.values())[1:]
        return [parameter.name for parameter in parameters if parameter.kind in _NAMED]

    @property
    def positional_count(self) -> int:
        """The number of positional arguments, including the input."""
        return sum(parameter.kind in _POSITIONAL for parameter in self.signature.parameters.values())

    def takes(self, argument: str) -> bool:
        """Returns whether the layer takes this keyword argument."""
        kinds = [parameter.kind for parameter in self.signature.parameters.values()]
        return inspect.Parameter.VAR_KEYWORD in kinds or argument in self.arguments

    def hint(self, argument: str) -> str:
        """Returns a question about a similar argument, if the layer does not take this one."""
        similar = [] if self.takes(argument) else difflib.get_close_matches(argument, self.arguments, 1)
        return f"Did you mean {similar[0]!r}? " if similar else ""

    def split_name(self, args: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
        """Separates the layer's name from its positional arguments.

        Raises:
            LayerNameError: the name is required, but the first argument is not a name.
        """
        if args and isinstance(args[0], str) and args[0]:
            return args[0], args[1:]
        if not self.use_scope:
            return None, args
        received = repr(args[0]) if args else "no positional argument"
        raise LayerNameError(
            f"{self.name}: the first argument is the layer's name, a non-empty str; received {received}. "
            f'Write {self.name}("some_name", x, ...).'
        )

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[str]:
        """Returns the names of the explicit arguments of a call.

        If the arguments do not match the signature, only the keyword arguments are returned.
        """
        try:
            return set(self.signature.bind_partial(*args, **kwargs).arguments) | set(kwargs)
        except TypeError:
            return set(kwargs)

    def complete(
        self, call: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the keyword arguments of a call, including defaults of missing ones.

        Args:
            call: the call's label, for errors.
            args: positional arguments, the input first.
            kwargs: keyword arguments.
            defaults: the arguments of the enclosing argument scopes.

        Raises:
            LayerArgumentError: the arguments do not match the layer's signature.
        """
        try:
            given = self.signature.bind_partial(*args, **kwargs).arguments
            merged = {key: value for key, value in defaults.items() if key not in given} | dict(kwargs)
            self.signature.bind(*args, **merged)
        except TypeError as error:
            hint = "".join(map(self.hint, kwargs))
            raise LayerArgumentError(
                f"{call}: {error}. {hint}After the input it takes: {', '.join(self.arguments)}."
            ) from None
        return merged


class Layer(Protocol[P, R_co]):
    """A registered layer: the function's signature, with the layer's name before the input."""

    layer_name: str
    layer_info: LayerInfo

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Builds the layer in the current graph."""
        ...


class OptionalNameLayer(Protocol[P, R_co]):
    """A registered layer with an optional name."""

    layer_name: str
    layer_info: LayerInfo

    @overload
    def __call__(self, name: str, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def layer_info(candidate: object) -> LayerInfo | None:
    """Returns the description of a layer, or `None` for anything else."""
    info = getattr(candidate, "layer_info", None)
    return info if isinstance(info, LayerInfo) else None


@final
@attrs.frozen(eq=False)
class ScopeBlock:
    """An open `argscope`, the arguments of its layers, and the place where it was opened.

    Layers are identified by object, not by name.
    """

    scope: object
    arguments: Mapping[LayerInfo, Mapping[str, Any]]
    path: str
    line: int


OPEN_BLOCKS: ContextVar[tuple[ScopeBlock, ...]] = ContextVar("towerpack_layers_argscope", default=())
"""The open argument scopes, the outermost first."""


def scoped_defaults(layer: LayerInfo) -> dict[str, tuple[Any, str]]:
    """Returns the current default arguments of one layer, each with the place of its scope."""
    defaults: dict[str, tuple[Any, str]] = {}
    for block in OPEN_BLOCKS.get():
        if layer in block.arguments:
            place = f"{block.path}:{block.line}"
            defaults.update((name, (value, place)) for name, value in block.arguments[layer].items())
    return defaults


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

# The files between a user's call and the code that looks for it.
_PASSED_OVER = (os.path.dirname(os.path.dirname(__file__)) + os.sep, contextlib.__file__)


def modern_call(
    call: str, layer: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns a call's arguments by their current names, with a warning for each alias.

    Args:
        call: the call's label, for warnings and errors.
        layer: the layer.
        args: positional arguments, the input first.
        kwargs: keyword arguments.

    Raises:
        LayerArgumentError: an argument is given by two names.
        ValueError: the value of an alias cannot be translated.
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
    """Returns keyword arguments by their current names, with a warning for each alias.

    Args:
        call: the call's label, for warnings and errors.
        layer: the layer.
        kwargs: keyword arguments.

    Raises:
        LayerArgumentError: an argument is given by two names.
        ValueError: the value of an alias cannot be translated.
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


def user_frame() -> tuple[FrameType, int]:
    """Returns the innermost frame outside of this wheel and of `contextlib`, and its level above the caller.

    docs/decisions/47-callers-are-found-by-their-frames.md has the reason.
    """
    frame, level = sys._getframe(1), 0
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED_OVER):
        frame, level = frame.f_back, level + 1
    return frame, level


def warn_in_user_code(message: str, category: type[Warning]) -> None:
    """Issues a warning for the line outside of this wheel that called a layer."""
    warnings.warn(message, category, stacklevel=user_frame()[1] + 1)


def _new_name(layer: LayerInfo, argument: str) -> str:
    name = _NAMES.get(argument, argument)
    return argument if layer.takes(argument) or name not in layer.arguments else name


def _new_value(call: str, layer: LayerInfo, argument: str, name: str, value: Any) -> Any:
    """Returns the current value of an argument, and warns if argument or value is an alias."""
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
