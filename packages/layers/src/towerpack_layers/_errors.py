"""Errors of this wheel, each also a subclass of a builtin exception.

```
LayersError
├── TowerError                  (RuntimeError)    a tower is needed, or one is already entered
├── TowerNameError              (ValueError)      the tower's name scope is taken in this graph
├── SharedVariableError         (ValueError)      a tower that shares variables asked for a new one
├── KerasLayerError             (TypeError)       a Keras layer would not work in a tower
├── GraphRequiredError          (RuntimeError)    a layer was called in eager mode
├── LayerNameError              (TypeError)       a layer was called without its name
├── DuplicateLayerError         (ValueError)      two layers of one name in one tower
├── DuplicateRegistrationError  (ValueError)      two functions registered under one layer name
├── LayerArgumentError          (TypeError)       a layer does not have this argument, or needs another
├── NotALayerError              (TypeError)       `argscope` received an object that is not a layer
├── ScopeError                  (TypeError)       a scope received an invalid argument
├── FrozenVariableError         (ValueError)      a variable to freeze exists and is trainable
└── UnknownLayerError           (AttributeError)  no layer has the name looked up on a `LinearWrap`
```

Values out of range and mismatched shapes raise plain `ValueError` and `TypeError`.
"""

from __future__ import annotations

__all__ = [
    "DuplicateLayerError",
    "DuplicateRegistrationError",
    "FrozenVariableError",
    "GraphRequiredError",
    "KerasLayerError",
    "LayerArgumentError",
    "LayerNameError",
    "LayersError",
    "NotALayerError",
    "ScopeError",
    "SharedVariableError",
    "TowerError",
    "TowerNameError",
    "UnknownLayerError",
]


class LayersError(Exception):
    """Base of all specific errors of this wheel."""


class TowerError(LayersError, RuntimeError):
    """A required tower context is missing, or a second one is entered inside the first."""


class TowerNameError(LayersError, ValueError):
    """The name scope of a tower is already used in the graph."""


class SharedVariableError(LayersError, ValueError):
    """A tower that shares the variables of an earlier one asked for a variable that does not exist."""


class KerasLayerError(LayersError, TypeError):
    """A Keras layer has a state or regularizer that would silently have no effect, or cannot be adapted."""


class GraphRequiredError(LayersError, RuntimeError):
    """A symbolic function was called in eager mode."""


class LayerNameError(LayersError, TypeError):
    """The first argument of a layer was not its name."""


class DuplicateLayerError(LayersError, ValueError):
    """A layer scope is used a second time, without variable reuse."""


class DuplicateRegistrationError(LayersError, ValueError):
    """A different function is already registered under this layer name."""


class LayerArgumentError(LayersError, TypeError):
    """An argument is unknown to a layer, or a required one is missing."""


class NotALayerError(LayersError, TypeError):
    """An argument is not a registered layer."""


class ScopeError(LayersError, TypeError):
    """A scope, or a decorator that opens one, received an invalid argument."""


class FrozenVariableError(LayersError, ValueError):
    """A variable to freeze already exists and is trainable."""


class UnknownLayerError(LayersError, AttributeError):
    """No layer is registered under the name looked up on a `LinearWrap`."""
