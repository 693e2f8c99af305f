"""Errors of this wheel, each with the builtin that it is a case of.

    LayersError
    ├── TowerError                 (RuntimeError)    a tower is needed, or one is already entered
    ├── TowerNameError             (ValueError)      the tower's name scope is taken in this graph
    ├── SharedVariableError        (ValueError)      a tower that shares variables asked for a new one
    ├── KerasLayerError            (TypeError)       a Keras layer would not work in a tower
    ├── GraphRequiredError         (RuntimeError)    a layer was called in eager mode
    ├── LayerNameError             (TypeError)       a layer was called without its name
    ├── DuplicateLayerError        (ValueError)      two layers of one name in one tower
    ├── DuplicateRegistrationError (ValueError)      two functions registered under one layer name
    ├── LayerArgumentError         (TypeError)       a layer does not have this argument, or needs another
    ├── NotALayerError             (TypeError)       `argscope` was called for something that is no layer
    ├── ScopeError                 (TypeError)       a scope was opened with something that it cannot use
    ├── FrozenVariableError        (ValueError)      a variable to be frozen exists, and is trainable
    └── UnknownLayerError          (AttributeError)  `LinearWrap` finds no layer of this name

Values out of range and shapes that do not fit are plain `ValueError` and `TypeError`.
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
    """Base of every error that is particular to this wheel."""


class TowerError(LayersError, RuntimeError):
    """A tower context is needed and none is entered, or a second one is entered inside the first."""


class TowerNameError(LayersError, ValueError):
    """The name scope of a tower is already used in the graph."""


class SharedVariableError(LayersError, ValueError):
    """A tower that shares the variables of an earlier one asked for a variable that does not exist."""


class KerasLayerError(LayersError, TypeError):
    """A Keras layer has a state or a regularizer that would silently have no effect, or cannot be adapted."""


class GraphRequiredError(LayersError, RuntimeError):
    """A symbolic function was called while TensorFlow executes eagerly."""


class LayerNameError(LayersError, TypeError):
    """The first argument of a layer was not its name."""


class DuplicateLayerError(LayersError, ValueError):
    """A layer scope is used a second time, without variable reuse."""


class DuplicateRegistrationError(LayersError, ValueError):
    """A different function is already registered under this layer name."""


class LayerArgumentError(LayersError, TypeError):
    """An argument is unknown to a layer, or a required one is missing."""


class NotALayerError(LayersError, TypeError):
    """An argument that must be a registered layer is none."""


class ScopeError(LayersError, TypeError):
    """A scope, or a decorator that opens one, was given something that it cannot use."""


class FrozenVariableError(LayersError, ValueError):
    """A variable is to be frozen that exists already and is trainable."""


class UnknownLayerError(LayersError, AttributeError):
    """No layer is registered under the name looked up on a `LinearWrap`."""
