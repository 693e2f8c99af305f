"""Durations as text."""

from __future__ import annotations

__all__ = ["describe_seconds"]


def describe_seconds(seconds: float) -> str:
    """Formats a time in its two largest units.

    Example:
        >>> describe_seconds(93784), describe_seconds(59.6), describe_seconds(3600)
        ('1 day 2 hours', '1 minute', '1 hour')
    """
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number or (parts and len(parts) < 2):
            parts.append((number, unit))
    shown = [f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts[:2] if number]
    return " ".join(shown) or "0 seconds"
