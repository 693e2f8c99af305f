"""What the calls of layers took from the argument scopes around them, as text for people."""

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
    """An argument that an argument scope has for a call.

    Args:
        argument: its name.
        value: its value, as text.
        place: file and line of the `with argscope(...)`.
        is_used: whether the call took it; the call's own argument wins.
    """

    argument: str
    value: str
    place: str
    is_used: bool

    def __str__(self) -> str:
        """Returns the default as one line."""
        own = "" if self.is_used else ", not used: the call gives its own"
        return f"{self.argument}={self.value}  ({self.place}{own})"


@final
@attrs.frozen
class ScopedCall:
    """A layer that was built inside of argument scopes.

    Args:
        layer: the kind of layer.
        scope: the variable scope of the layer; for a layer without a name, the one around it.
        defaults: what the argument scopes have for it.
    """

    layer: str
    scope: str
    defaults: Sequence[ScopedDefault]


@final
@attrs.frozen(repr=False)
class ScopedCalls:
    """The layers of a graph that were built inside of argument scopes: what `argscope.explain()` returns.

    Args:
        calls: one for each layer, in the order in which they were built.
    """

    calls: Sequence[ScopedCall]

    def __repr__(self) -> str:
        """Returns a line for each layer, and one for each default under it."""
        lines = []
        for call in self.calls:
            lines.append(f"{call.layer}({call.scope!r})")
            lines.extend(f"    {default}" for default in call.defaults)
        return "\n".join(lines) or "No layer of this graph was built inside of an argscope."


def note_call(
    layer: str, scope: str, defaults: Mapping[str, tuple[Any, str]], taken: Mapping[str, Any]
) -> None:
    """Notes, for this graph, what a call found in the argument scopes around it.

    The notes are texts: values may be tensors, which would keep the graph alive.

    Args:
        layer: the kind of layer.
        scope: its variable scope.
        defaults: value and place of each default that there is for the call.
        taken: the keyword arguments that the layer was called with.
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
    """Returns the calls noted for the current graph."""
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
