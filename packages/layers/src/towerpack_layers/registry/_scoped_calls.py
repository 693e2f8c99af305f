"""A readable record of the arguments that calls of layers took from argument scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..tower import graph_notes

__all__ = ["ScopedCall", "ScopedCalls", "ScopedDefault", "note_call", "noted_calls"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@final
@attrs.frozen
class ScopedDefault:
    """A default argument of an argument scope for a call.

    Args:
        argument: its name.
        value: its value, as text.
        place: file and line of the `with argscope(...)`.
        is_used: whether the call used it; an explicit argument of the call overrides it.
    """

    argument: str
    value: str
    place: str
    is_used: bool

    def __str__(self) -> str:
        """Returns the default as one line."""
        own = "" if self.is_used else ", not used: overridden by the call"
        return f"{self.argument}={self.value}  ({self.place}{own})"


@final
@attrs.frozen
class ScopedCall:
    """A layer built inside of argument scopes.

    Args:
        layer: the kind of layer.
        scope: the variable scope of the layer; for a layer without a name, the enclosing one.
        defaults: the defaults of the argument scopes for it.
    """

    layer: str
    scope: str
    defaults: Sequence[ScopedDefault]


@final
@attrs.frozen(repr=False)
class ScopedCalls:
    """The layers of a graph built inside of argument scopes; the result of `argscope.explain()`.

    Args:
        calls: one element per layer, in the order of construction.
    """

    calls: Sequence[ScopedCall]

    def __repr__(self) -> str:
        """Returns a line for each layer, followed by a line for each of its defaults."""
        lines = []
        for call in self.calls:
            lines.append(f"{call.layer}({call.scope!r})")
            lines.extend(f"    {default}" for default in call.defaults)
        return "\n".join(lines) or "No layer of this graph was built inside of an argscope."


def note_call(
    layer: str, scope: str, defaults: Mapping[str, tuple[Any, str]], taken: Mapping[str, Any]
) -> None:
    """Records the argument scopes' defaults for a call, in this graph.

    Values are stored as text, since tensors would keep the graph alive.

    Args:
        layer: the kind of layer.
        scope: its variable scope.
        defaults: value and place of each default for the call.
        taken: the final keyword arguments of the call.
    """
    noted = graph_notes().scoped_calls
    key = f"{layer} {scope}"
    if key not in noted:
        noted[key] = ScopedCall(
            layer,
            scope,
            tuple(
                ScopedDefault(argument, _text(value), place, taken.get(argument, noted) is value)
                for argument, (value, place) in defaults.items()
            ),
        )


def noted_calls() -> ScopedCalls:
    """Returns the recorded calls of the current graph."""
    return ScopedCalls(tuple(graph_notes().scoped_calls.values()))


def _text(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value) in {list, tuple} and len(value) <= 8:
        inside = ", ".join(map(_text, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if callable(value) and isinstance(getattr(value, "__qualname__", None), str):
        return str(value.__qualname__)
    if tf.is_tensor(value):
        return f"<tensor {getattr(value, 'name', '')} of shape {value.shape}>"
    return f"<{type(value).__name__}>"
