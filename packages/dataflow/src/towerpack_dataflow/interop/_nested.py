"""Nested values: lists, tuples, named tuples and dicts of leaves, at any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["joined", "leaves", "mapped"]


def mapped(value: Any, function: Callable[[Any, tuple[Any, ...]], Any], path: tuple[Any, ...] = ()) -> Any:
    """Returns a copy of nested lists, tuples, named tuples and dicts, with a function applied to the leaves.

    Args:
        value: the nested value.
        function: called with a leaf and its path of keys.
        path: the path of `value`.
    """
    kind = type(value)
    if kind is dict:
        return {key: mapped(part, function, (*path, key)) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [mapped(part, function, (*path, place)) for place, part in enumerate(value)]
        if kind is list:
            return parts
        return kind._make(parts) if hasattr(kind, "_make") else tuple(parts)
    return function(value, path)


def leaves(value: Any, found: list[Any], path: tuple[Any, ...] = ()) -> Any:
    """Appends the leaves of a nested value to `found` and returns its structure, for `joined`.

    Structures of values with the same containers, keys and lengths are equal.

    Args:
        value: the nested value.
        found: receives pairs of a path and a leaf.
        path: the path of `value`.
    """
    kind = type(value)
    if kind is dict:
        parts = [leaves(part, found, (*path, key)) for key, part in value.items()]
        return dict, tuple(value), tuple(parts)
    if isinstance(value, (list, tuple)):
        parts = [leaves(part, found, (*path, place)) for place, part in enumerate(value)]
        return kind, None, tuple(parts)
    found.append((path, value))
    return None


def joined(structure: Any, values: Any) -> Any:
    """Returns a nested value of a structure from `leaves`, with the next leaves of an iterator."""
    if structure is None:
        return next(values)
    kind, keys, below = structure
    parts = [joined(part, values) for part in below]
    if kind is dict:
        return dict(zip(keys, parts))
    if kind is list:
        return parts
    return kind._make(parts) if hasattr(kind, "_make") else tuple(parts)
