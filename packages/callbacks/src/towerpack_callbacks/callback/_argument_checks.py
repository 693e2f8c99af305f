"""Checks of common callback arguments, with uniform messages."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["check_choice", "check_count", "check_number_above_zero"]


def check_count(
    shown: str,
    value: object,
    at_least: int = 1,
    optional: bool = False,
    error: type[ValueError] = ValueError,
) -> None:
    """Checks that an argument is a whole number of at least a given size.

    Args:
        shown: the argument as the message shows it, such as "EarlyStopping(patience=0)".
        value: the argument.
        at_least: the smallest number allowed.
        optional: whether None is also allowed.
        error: type of the exception.

    Raises:
        ValueError: the argument is not a whole number, or too small; the type is `error`.
    """
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        or_none = ", or None" if optional else ""
        raise error(f"{shown}: expected a whole number of at least {at_least}{or_none}.")


def check_number_above_zero(shown: str, value: object, error: type[ValueError] = ValueError) -> None:
    """Checks that an argument is a finite number above 0.

    Args:
        shown: the argument as the message shows it.
        value: the argument.
        error: type of the exception.

    Raises:
        ValueError: the argument is not a finite number above 0; the type is `error`.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):  # type: ignore[operator]
        raise error(f"{shown}: expected a number above 0.")


def check_choice(shown: str, value: object, choices: Sequence[str]) -> None:
    """Checks that an argument is one of some strings.

    Args:
        shown: the argument as the message shows it.
        value: the argument.
        choices: the strings allowed.

    Raises:
        ValueError: the argument is not one of the choices.
    """
    if value not in choices:
        expected = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{shown}: expected {expected}.")
