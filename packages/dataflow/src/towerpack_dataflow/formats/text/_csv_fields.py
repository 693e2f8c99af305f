"""The fields of a row of a text table, quoted or not, and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..._errors import FormatError

__all__ = ["field_of", "fields", "typed_fields"]

_BEGINNINGS = frozenset("-0123456789inTF")  # first characters of numbers, booleans, inf and nan
_DIGITS = re.compile("-?[0-9]+")
_SPECIAL = re.compile('[",\r\n\ufeff]')


def fields(text: str, delimiter: str) -> list[str]:
    """Returns the texts of the fields of a row, with the rules of Python's `csv`, but of any length.

    Args:
        text: text of the row, without the end of the line.
        delimiter: one character.

    Raises:
        FormatError: a quote is unbalanced, or a line ends outside quotes.

    Example:
        >>> fields('a,"b, ""c"" ",', ",")
        ['a', 'b, "c" ', '']
    """
    if _is_simple(text):
        return text.split(delimiter)
    return [value for value, _ in _split(text, delimiter)]


def typed_fields(text: str, delimiter: str) -> list[Any]:
    """Returns the values of the fields of a row written with `field_of`.

    Raises:
        FormatError: as for `fields`.

    Example:
        >>> typed_fields('1,"1",1.0,True,,"",007,a', ",")
        [1, '1', 1.0, True, None, '', '007', 'a']
    """
    if _is_simple(text):
        return [_value_of(value) for value in text.split(delimiter)]
    return [value if quoted else _value_of(value) for value, quoted in _split(text, delimiter)]


def _is_simple(text: str) -> bool:
    return '"' not in text and "\n" not in text and "\r" not in text


def field_of(value: Any) -> str:
    """Returns the text of a value in a row; quotes text that would otherwise be read as another value.

    Raises:
        TypeError: a row cannot hold such a value.
        ValueError: the value is text that UTF-8 cannot encode, or an integer with too many digits for Python.
    """
    if value is None:
        return ""
    if type(value) in (bool, int, float):
        return repr(value)
    if type(value) is not str:
        raise TypeError(f"a row holds numbers, text, booleans and None; received a {type(value).__name__}")
    value.encode()
    if _SPECIAL.search(value) or type(_value_of(value)) is not str:
        return '"' + value.replace('"', '""') + '"'
    return value


def _value_of(text: str) -> Any:
    """Returns the value of a text without quotes: the Python value with this text, else the text itself."""
    if not text:
        return None
    if text[0] not in _BEGINNINGS:
        return text
    if text in ("True", "False"):
        return text == "True"
    kind = int if _DIGITS.fullmatch(text) else float
    try:
        value = kind(text)
        return value if repr(value) == text else text
    except ValueError:
        return text


@cache
def _pattern(delimiter: str) -> re.Pattern[str]:
    one = re.escape(delimiter)
    # Text may follow the closing quote, as in Python's csv; a quote there, or within a field, is a literal.
    return re.compile(
        rf'(?:"([^"]*(?:""[^"]*)*)"([^{one}\r\n]*)|((?:[^{one}"\r\n][^{one}\r\n]*)?))({one}|\Z)'
    )


def _split(text: str, delimiter: str) -> Sequence[tuple[str, bool]]:
    found, at, match = _pattern(delimiter), 0, None
    parts = []
    while match is None or match[4]:
        match = found.match(text, at)
        if match is None:
            raise FormatError(
                f"unbalanced quote: {text:.60}" if '"' in text else f"a line ends within it: {text:.60!r}"
            )
        at = match.end()
        quoted = match[1] is not None
        parts.append((match[1].replace('""', '"') + match[2] if quoted else match[3], quoted))
    return parts
