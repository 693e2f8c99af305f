"""The scope of one layer: its variables, output name, logging and compute dtype."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import DuplicateLayerError, GraphRequiredError
from ..tower._tower_context import get_current_tower_context, graph_notes, outermost_graph

__all__ = [
    "VariableHolder",
    "attach_variables",
    "cast_arguments",
    "check_finished",
    "check_graph_mode",
    "compute_dtype",
    "copy_variables",
    "disable_layer_logging",
    "layer_scope",
    "log_shapes",
    "name_output",
    "repeating_names",
]

_log = logging.getLogger("towerpack_layers")


@final
class VariableHolder(SimpleNamespace):
    """The variables of one layer by their short names: the attribute `variables` of the layer's output.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected
        >>> with tf.Graph().as_default():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)
        >>> out.variables.W.name, [v.name for v in out.variables.all()]
        ('fc/W:0', ['fc/W:0', 'fc/b:0'])
    """

    def all(self) -> list[Any]:
        """Returns the variables in the order of their creation."""
        return list(vars(self).values())

    @property
    def moving_mean(self) -> Any:
        """The variable `mean` of a normalization layer, by the name in `tf.layers` and Tensorpack."""
        return self.mean

    @property
    def moving_variance(self) -> Any:
        """The variable `variance` of a normalization layer, by the name in `tf.layers` and Tensorpack."""
        return self.variance


def attach_variables(tensor: tf.Tensor, **variables: Any) -> tf.Tensor:
    """Sets `tensor.variables` to a holder of the variables that are not `None`, and returns the tensor.

    Args:
        tensor: a layer's result.
        **variables: variables by short name, in the order of their creation.
    """
    tensor.variables = VariableHolder(**{key: value for key, value in variables.items() if value is not None})
    return tensor


def copy_variables(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Attaches the holder of `source`, if any, to `target`, and returns `target`."""
    if hasattr(source, "variables"):
        target.variables = source.variables
    return target


_repeats: ContextVar[bool] = ContextVar("towerpack_layers_repeating_names", default=False)


@contextlib.contextmanager
def repeating_names() -> Iterator[None]:
    """Allows duplicate layer names in this block, like repeated scopes of `tf.variable_scope`."""
    token = _repeats.set(True)
    try:
        yield
    finally:
        _repeats.reset(token)


def check_graph_mode(call: str) -> None:
    """Checks that a graph is being built: in eager mode, variables of `tf.get_variable` would be lost.

    Args:
        call: the label of the call, for the error.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
    """
    if tf.executing_eagerly():
        raise GraphRequiredError(f"{call} builds a graph. Call it inside `with tf.Graph().as_default():`.")


@contextlib.contextmanager
def layer_scope(layer: str, name: str) -> Iterator[str]:
    """Opens the variable scope and the name scope of a layer, and yields the variable scope's name.

    A scope counts as used after the layer is built without an error, so a failed call may be repeated with
    other arguments, unless it has created variables. The rule also applies to layers without variables, since
    code finds the output of a pooling layer by name, too.

    Args:
        layer: the kind of layer, for messages.
        name: the layer's name, relative to the enclosing variable scope.

    Raises:
        DuplicateLayerError: the name of the layer or of one of its variables is already used, and variables
            are not reused here.
    """
    call, notes, graph = f"{layer}({name!r})", graph_notes(), tf.get_default_graph()
    around, reused = graph.get_name_scope(), bool(tf.get_variable_scope().reuse)
    wanted = f"{around}/{name}" if around else name
    place, made = (getattr(graph, "name", ""), wanted), list[str]()
    failed = notes.failed.get(place)
    if not reused and not _repeats.get():
        _check_free(call, name, wanted, failed)
    again = tf.name_scope(f"{wanted}/") if failed is not None else contextlib.nullcontext()
    opened = tf.variable_scope(
        name, custom_getter=_note_variables(call, made), auxiliary_name_scope=failed is None
    )
    with opened as scope, again:
        here = graph.get_name_scope()
        try:
            yield str(scope.name)
        except BaseException:
            if here == wanted:  # not a repeated use of a layer, which has a name scope with a suffix
                notes.failed[place] = (*(failed or ()), *made)
            raise
    notes.failed.pop(place, None)
    notes.scopes.setdefault(scope.name, layer)


def _check_free(call: str, name: str, wanted: str, failed: tuple[str, ...] | None) -> None:
    around = tf.get_variable_scope().name
    scope = f"{around}/{name}" if around else name
    earlier = graph_notes().scopes.get(scope)
    if earlier is not None:
        raise DuplicateLayerError(
            f"{call}: the layer scope {scope!r} is already used by a {earlier}. Give this layer another "
            "name; or, to share the variables intentionally, call it inside "
            f"`with tf.variable_scope(tf.get_variable_scope(), reuse=True):`."
        )
    if failed:
        raise DuplicateLayerError(
            f"{call}: an earlier call with this name failed after creating {', '.join(failed)}. A graph "
            "keeps its variables: build a new graph, or give this layer another name."
        )
    if failed is None and tf.get_default_graph().unique_name(name, mark_as_used=False) != wanted:
        raise DuplicateLayerError(
            f"{call}: the name {wanted!r} is already used in this graph by an input, another op or a name "
            f"scope (names are case-insensitive), so the output cannot be named {wanted}/output. Rename one "
            "of the two."
        )


def _note_variables(call: str, made: list[str]) -> Callable[..., Any]:
    """Returns a variable getter that records created variables and refuses renamed ones."""

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        graph = outermost_graph()
        with graph.name_scope(None):
            is_free = graph.unique_name(name, mark_as_used=False) == name
        if not is_free and not _is_variable(graph, name):
            raise DuplicateLayerError(
                f"{call}: the variable {name!r} cannot be created, because a name scope or an op has this "
                "name. Rename the layer, or that scope or op."
            )
        variable = getter(name, *args, **kwargs)
        if is_free:
            made.append(name)
        return variable

    return get


def _is_variable(graph: tf.Graph, name: str) -> bool:
    for candidate in (name, f"{name}/part_0"):
        try:
            if graph.get_operation_by_name(candidate).type.startswith("Var"):
                return True
        except KeyError:
            continue
    return False


def name_output(call: str, result: Any) -> Any:
    """Names a layer's result `output` in the current name scope, if it is a single tensor.

    Raises:
        DuplicateLayerError: the layer uses this name for another op.
        TypeError: the result is a generator or a coroutine, which would create variables outside of the
            layer.
    """
    check_finished(call, result)
    if not tf.is_tensor(result) or not hasattr(result, "op"):
        return result
    graph = tf.get_default_graph()
    wanted = f"{graph.get_name_scope()}/output"
    if result.op.name == wanted:
        return result
    if graph.unique_name("output", mark_as_used=False) != wanted:
        if _repeats.get():
            return result
        raise DuplicateLayerError(
            f"{call}: an op inside the layer is named 'output', but is not its result. Rename that op."
        )
    return copy_variables(result, tf.identity(result, "output"))


def check_finished(call: str, result: Any) -> None:
    """Checks that a layer's function is not a generator or coroutine.

    Raises:
        TypeError: the result is a generator or a coroutine.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        raise TypeError(
            f"{call} returned a {type(result).__name__}, which would create variables outside of the "
            "layer's scope. Return a tensor or a list of tensors."
        )


_is_disabled: ContextVar[bool] = ContextVar("towerpack_layers_is_logging_disabled", default=False)


def disable_layer_logging() -> contextlib.ExitStack:
    """Disables the logging of layer shapes from now on, or within a `with` block.

    It applies only to this thread (precisely, this `contextvars` context).

    Returns:
        A context manager that enables the logging again, at the end of the block or by `.close()`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, disable_layer_logging
        >>> with tf.Graph().as_default(), disable_layer_logging():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)  # is not logged
    """
    before = _is_disabled.get()
    _is_disabled.set(True)
    end = contextlib.ExitStack()
    end.callback(_is_disabled.set, before)
    return end


def log_shapes(scope: str, inputs: Any, outputs: Any) -> None:
    """Logs the shapes of a layer's input and output, once for each layer of a graph."""
    tower = get_current_tower_context()
    if _is_disabled.get() or (tower is not None and tower.index > 0):
        return
    if graph_notes().first_time("shape", scope):
        _log.info("%s: %s -> %s", scope, _shapes(inputs), _shapes(outputs))


def _shapes(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shapes, value))
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tf.TensorShape(shape))


_dtype: ContextVar[tf.DType | None] = ContextVar("towerpack_layers_compute_dtype", default=None)


@contextlib.contextmanager
def compute_dtype(dtype: tf.DType) -> Iterator[None]:
    """Sets the compute dtype of all layers in a block, only for this thread."""
    before = _dtype.get()
    _dtype.set(dtype)
    try:
        yield
    finally:
        _dtype.set(before)


def cast_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a layer, with float32 tensors cast to the compute dtype.

    All tensors are cast, not only the input, since a layer can combine only tensors of one dtype. Variables
    are not cast: the layer must receive the variable itself.
    """
    dtype = _dtype.get()
    if dtype is None:
        return args, dict(kwargs)

    def cast(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(_is_float32(part) for part in value):
            return [cast(part) for part in value]
        return tf.cast(value, dtype) if _is_float32(value) else value

    return tuple(map(cast, args)), {key: cast(value) for key, value in kwargs.items()}


def _is_float32(value: object) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype == tf.float32
