"""Refuses Keras layers that would silently have no effect in a training tower.

In a graph, Keras adds neither the costs of its regularizers nor the updates of its state to the graph's
collections. So regularizers have no effect, the averages of a `BatchNormalization` do not change, and a
`Dropout` drops nothing, or the same elements at each step. Most of these layers are detected when their
variables are created. Layers built earlier are detected at the end of the tower, by ops that change their
state and that no step would run. `towerpack_layers.interop.use_keras` adds the missing parts and is exempt,
as are the layers of tf_keras that use the collections: those of its `legacy_tf_layers`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError

__all__ = [
    "adapting_keras",
    "adapts_keras",
    "check_learning_phase",
    "check_no_lost_updates",
    "create_no_lost_state",
    "uses_of_learning_phase",
]

_PACKAGES = {"keras", "tf_keras"}
_LEGACY = "tf_keras.src.legacy_tf_layers"
_FILES = ("/keras/src/", "/tf_keras/src/")
_USE_INSTEAD = (
    "Call it with towerpack_layers.interop.use_keras(...), which takes the function that makes the layer or "
    "the model; or use the layers of towerpack_layers, or the functions of tf_keras.src.legacy_tf_layers."
)

# Whether an adapter that handles costs and updates is active.
_adapting: ContextVar[bool] = ContextVar("towerpack_layers_adapting_keras", default=False)


@contextlib.contextmanager
def adapting_keras() -> Iterator[None]:
    """Allows all Keras variables in this block; the caller handles costs and updates.

    Around a whole tower, it disables all checks of Keras layers.
    """
    token = _adapting.set(True)
    try:
        yield
    finally:
        _adapting.reset(token)


def adapts_keras() -> bool:
    """Returns whether the caller of this block handles costs and updates."""
    return _adapting.get()


def create_no_lost_state(next_creator: Callable[..., Any], **arguments: Any) -> Any:
    """Creates a variable unless its Keras layer would not work; for `variable_creator_scope`.

    Raises:
        KerasLayerError: the variable is the state of a Keras layer, or the layer has a regularizer.
    """
    if not adapts_keras() and not _PACKAGES.isdisjoint(sys.modules):
        owner = _owner(sys._getframe(1))
        if owner is not None and getattr(owner, "trainable", True) and not _keeps_to_collections(owner):
            _check(owner, arguments.get("trainable"))
    return next_creator(**arguments)


def _check(owner: Any, trainable: bool | None) -> None:
    kind, name = type(owner).__name__, getattr(owner, "name", "")
    call = f"The Keras object {kind}({name!r})"
    if trainable is False:
        raise KerasLayerError(
            f"{call} has a state that changes in training, but no step of this tower would change it: "
            f"random numbers would be the same at each step, averages would not change. {_USE_INSTEAD} For "
            "a layer with constant averages, pass trainable=False."
        )
    regularizers = [key for key, value in vars(owner).items() if key.endswith("_regularizer") and value]
    if regularizers:
        raise KerasLayerError(
            f"{call} has {', '.join(key.lstrip('_') for key in regularizers)}, but Keras does not add its "
            "cost to the cost of this tower. Remove it, and add regularize_cost(...) to the cost. Or: "
            f"{_USE_INSTEAD}"
        )


def uses_of_learning_phase(graph: tf.Graph) -> int:
    """Returns the number of tf_keras layers that use the learning phase, which is inference."""
    try:
        return len(graph.get_tensor_by_name("keras_learning_phase:0").consumers())
    except KeyError:
        return 0


def check_learning_phase(tower: str, uses: int) -> None:
    """Checks that no layer of tf_keras uses the learning phase.

    Args:
        tower: the tower's name, for errors.
        uses: the number of such layers that the tower has added.

    Raises:
        KerasLayerError: the number is not 0.
    """
    if uses:
        raise KerasLayerError(
            f"Training tower {tower!r} has a layer of tf_keras, such as a Dropout, that was called without "
            "training= and would act as in inference. Pass training=True (or False, if intended). Or: "
            f"{_USE_INSTEAD}"
        )


def check_no_lost_updates(tower: str, graph: tf.Graph, begin: int) -> None:
    """Checks that no Keras layer changes its state by ops that no step runs.

    Args:
        tower: the tower's name, for errors.
        graph: the tower's graph.
        begin: the number of ops in the graph before the tower.

    Raises:
        KerasLayerError: a Keras layer does.
    """
    if _PACKAGES.isdisjoint(sys.modules):
        return
    ops = graph.get_operations()[begin:]
    changes = [op for op in ops if op.type.startswith("Assign") and _is_of_keras(op)]
    if not changes:
        return
    variables = [*tf.global_variables(), *tf.local_variables()]
    run = {variable.initializer.name for variable in variables}
    run |= {getattr(item, "op", item).name for item in tf.get_collection(tf.GraphKeys.UPDATE_OPS)}
    lost = [op.name for op in changes if op.name not in run]
    if lost:
        raise KerasLayerError(
            f"Training tower {tower!r} has Keras layers that change their state by ops that no step runs: "
            f"{', '.join(lost[:4])}. Their random numbers would be the same at each step, their averages "
            f"would not change. {_USE_INSTEAD} Or add these ops to tf.GraphKeys.UPDATE_OPS."
        )


def _is_of_keras(op: tf.Operation) -> bool:
    return any(part in frame[0] for frame in op.traceback for part in _FILES)


def _keeps_to_collections(owner: object) -> bool:
    """Returns whether a layer is one of TensorFlow 1's layers, which tf_keras also contains."""
    legacy = any(kind.__module__.startswith(_LEGACY) for kind in type(owner).__mro__)
    return legacy and not getattr(owner, "_keras_style", False)


def _owner(frame: FrameType | None) -> Any:
    """Returns the Keras layer or other Keras object that creates a variable, or `None`."""
    objects = list(_objects_of_keras(frame))
    layers = [candidate for candidate in objects if _is_layer(candidate)]
    return next(iter([*layers, *objects]), None)


def _objects_of_keras(frame: FrameType | None) -> Iterator[Any]:
    while frame is not None:
        if _package(frame.f_globals.get("__name__", "")) in _PACKAGES and "self" in frame.f_locals:
            yield frame.f_locals["self"]
        frame = frame.f_back


def _is_layer(candidate: object) -> bool:
    kinds = type(candidate).__mro__
    return any(kind.__name__ == "Layer" and _package(kind.__module__) in _PACKAGES for kind in kinds)


def _package(module: str) -> str:
    return module.partition(".")[0]
