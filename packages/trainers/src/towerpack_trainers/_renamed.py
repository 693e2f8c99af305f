"""Old names of arguments, which work with a `DeprecationWarning` for two minor versions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["renamed_arguments"]

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
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in new_names.keys() & kwargs.keys():
                new = new_names[old]
                if new in kwargs:
                    raise TypeError(
                        f"{function.__qualname__}: received {old}= and {new}=, two names of one argument. "
                        f"Pass {new}= only."
                    )
                warnings.warn(
                    f"{function.__qualname__}: {old}= is deprecated; write {new}=",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
