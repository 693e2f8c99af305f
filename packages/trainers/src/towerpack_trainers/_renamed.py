"""Old names of arguments, fields, methods and exports. They work with a `DeprecationWarning`.

`docs/stability.md` has the releases that may remove them.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["renamed_arguments", "renamed_exports", "renamed_fields", "renamed_method"]

_Class = TypeVar("_Class", bound=type[Any])
_Function = TypeVar("_Function", bound=Callable[..., Any])


def renamed_arguments(**new_names: str) -> Callable[[_Function], _Function]:
    """Lets a function accept keyword arguments by their old names.

    Args:
        new_names: the new name of each old one.

    Example:
        >>> @renamed_arguments(draw="rng_key")
        ... def sample(rng_key):
        ...     return rng_key
        >>> with warnings.catch_warnings(action="ignore"):
        ...     sample(draw=3)
        3
    """

    def decorate(function: _Function) -> _Function:
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in new_names.keys() & kwargs.keys():
                new = new_names[old]
                if new in kwargs:
                    raise TypeError(
                        f"{name}: received {old}= and {new}=, two names of one argument. Pass {new}= only."
                    )
                _warn(f"{name}: {old}= is deprecated; write {new}=")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def renamed_fields(**new_names: str) -> Callable[[_Class], _Class]:
    """Lets a class accept arguments by their old names, and have attributes of these names.

    Args:
        new_names: the new name of each old one.
    """

    def decorate(kind: _Class) -> _Class:
        kind.__init__ = renamed_arguments(**new_names)(kind.__init__)
        for old, new in new_names.items():
            setattr(
                kind,
                old,
                property(functools.partial(_read, old=old, new=new), doc=f"The old name of `{new}`."),
            )
        return kind

    return decorate


def renamed_method(old: str, new: str) -> Callable[..., Any]:
    """Returns a method that calls another one, for the old name of a class's method."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _warn(f"{type(self).__name__}.{old}() is deprecated; call {new}()")
        return getattr(self, new)(*args, **kwargs)

    call.__doc__ = f"Calls `{new}`; deprecated."
    return call


def renamed_exports(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` for the old names of its exports.

    Args:
        module: the name of the module.
        new_names: the new name of each old one.
    """

    def look_up(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} is deprecated; use {new_names[name]}")
        return getattr(sys.modules[module], new_names[name])

    return look_up


def _read(instance: Any, old: str, new: str) -> Any:
    _warn(f"{type(instance).__name__}.{old} is deprecated; read {new}")
    return getattr(instance, new)


def _warn(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=3)
