"""Detects random generators that a flow or a function would copy into each worker."""

from __future__ import annotations

import functools
import logging
import random
import sys
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from ...flow._flow import DataFlow

__all__ = ["described", "generator_types", "named_parts", "warn_of_captured"]

_MOST = 1000  # members of a container


def named_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of `value`, each with its path as text."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_MOST])
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", part) for number, part in enumerate(value[:_MOST]))
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{number}]", part) for number, part in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", part) for name, part in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield "", value.__func__
    elif isinstance(value, DataFlow):
        yield from _of_flow(value)
    else:
        yield from _of_object(value)


def described(value: Any) -> str:
    """Returns a short text for a value."""
    if isinstance(value, DataFlow):
        return value._name()
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    name = function.__qualname__
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f" > variable {variable!r} of {name}", cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for variable in _names_in(function.__code__):
        if variable in function.__globals__:
            yield f" > global {variable!r} of {name}", function.__globals__[variable]
    defaults: list[tuple[Any, Any]] = list(enumerate(function.__defaults__ or ()))
    for parameter, part in [*defaults, *(function.__kwdefaults__ or {}).items()]:
        yield f" > default {parameter!r} of {name}", part
    yield from ((f".{attribute}", part) for attribute, part in vars(function).items())


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Yields the names that a function uses, including nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _of_flow(flow: DataFlow) -> Iterator[tuple[str, Any]]:
    for name, part in flow.__getstate__().items():
        yield (f" > {part._name()}" if isinstance(part, DataFlow) else f".{name}"), part


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):  # a method written in C
        yield ".__self__", owner
    yield from ((f".{name}", part) for name, part in list(getattr(value, "__dict__", {}).items()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)


_log = logging.getLogger("towerpack_dataflow")

_MOST_VALUES = 5000  # values to examine
_PLAIN = frozenset({int, float, bool, str, bytes, bytearray, complex, type(None), np.ndarray})
_FOREIGN = ("site-packages", "dist-packages")
_OUR_PACKAGE = __name__.partition(".")[0]
_MADE_ANEW = "._own_rng"  # the generator of an augmentor without a flow: each process creates its own


def generator_types() -> tuple[type, ...]:
    """Returns the classes of random generators."""
    torch = sys.modules.get("torch")
    found = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
    return found if torch is None or not hasattr(torch, "Generator") else (*found, torch.Generator)


def warn_of_captured(contents: Mapping[str, Any], copied: Collection[int] | None = None) -> None:
    """Logs a warning that names the random generators in `contents`, if there are any.

    Args:
        contents: the objects for the workers, by name.
        copied: the `id` of each pickled generator; by default, all generators count except the global ones,
            which a fork seeds.
    """
    found = [f"{path}: {described(value)}" for path, value in _generators(contents, copied)]
    if found:
        _log.warning(
            "each worker gets a copy of a random generator, and all copies draw the same numbers: %s. Take "
            "the numbers from rng=True in MapData, or from epoch.rng(index) in a flow: they depend on the "
            "datapoint, not on the worker",
            "; ".join(found[:3]),
        )


def _generators(contents: Mapping[str, Any], copied: Collection[int] | None) -> Iterator[tuple[str, Any]]:
    kinds = generator_types()
    of_process = {id(value) for value in _of_process()} if copied is None else set()
    waiting = deque(contents.items())
    seen: dict[int, Any] = {}  # with the values: an id is unique only during the lifetime of its object
    while waiting and len(seen) < _MOST_VALUES:
        path, value = waiting.popleft()
        if type(value) in _PLAIN or id(value) in seen or path.endswith(_MADE_ANEW):
            continue
        seen[id(value)] = value
        if not isinstance(value, kinds):
            waiting.extend((path + name, part) for name, part in _parts(value))
        elif isinstance(value, random.SystemRandom):  # which has no state
            continue
        elif id(value) not in of_process and (copied is None or id(value) in copied):
            yield path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a value to examine; skips definitions of other libraries."""
    if isinstance(value, types.ModuleType) or (isinstance(value, type) and not _is_the_users(value)):
        return
    library = isinstance(value, types.FunctionType) and not _is_the_users(value)
    for name, part in named_parts(value):
        if not (library and name.startswith(" > global ")):
            yield name, part
    if _is_the_users(type(value)):
        yield f" > class {type(value).__name__}", type(value)


def _is_the_users(definition: Any) -> bool:
    """Tells whether a class or function was defined by the user, not a library."""
    top = str(getattr(definition, "__module__", None)).partition(".")[0]
    if top == "__main__":
        return True
    if top in sys.stdlib_module_names or top == _OUR_PACKAGE:
        return False
    path = getattr(sys.modules.get(top), "__file__", None) or ""
    return not any(part in path for part in _FOREIGN)


def _of_process() -> Iterator[Any]:
    """Yields the global generators that each worker seeds; see `_process_end`."""
    yield random._inst
    yield np.random.mtrand._rand
    if hasattr(sys.modules.get("torch"), "default_generator"):
        yield sys.modules["torch"].default_generator
