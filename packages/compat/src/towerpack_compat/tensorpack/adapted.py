"""Classes and functions of Towerpack with translated arguments, by Tensorpack's names."""

from __future__ import annotations

from typing import Any

from .._resolve import resolve

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return resolve(name)
    except KeyError:
        raise AttributeError(f"Tensorpack has no {name!r}.") from None
