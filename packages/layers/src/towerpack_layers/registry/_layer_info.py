"""The description of a layer: its function, name and signature, and the parsing of call arguments."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, final, overload

import attrs

from .._errors import LayerArgumentError, LayerNameError

__all__ = ["Layer", "LayerInfo", "OptionalNameLayer", "layer_info"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

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
