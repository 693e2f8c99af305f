"""Context managers that change the results or the names of `tf.get_variable`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import FrozenVariableError, ScopeError
from ..arguments import check_count
from ..registry._layer_scope import check_graph_mode
from ..registry._layer_scope import compute_dtype as computing_in
from ..tower._tower_context import resolve_training, shared_by_towers

__all__ = [
    "custom_getter_scope",
    "freeze_variables",
    "mixed_precision",
    "name_scope_of_layer",
    "remap_variables",
    "rename_get_variable",
    "rename_tflayer_get_variable",
    "spectral_norm_scope",
]


_NAMES_OF_TF_LAYERS = {
    "kernel": "W",
    "bias": "b",
    "moving_mean": "mean/EMA",
    "moving_variance": "variance/EMA",
}


@contextlib.contextmanager
def custom_getter_scope(custom_getter: Callable[..., Any]) -> Iterator[None]:
    """Calls a custom getter for each `tf.get_variable` within a `with` block.

    The variable scope and the name scope are unchanged. With nested getters, the inner one is called first,
    with the outer one as its `getter`.

    Args:
        custom_getter: called as `custom_getter(getter, name, *args, **kwargs)`; creates the variable by
            `getter(name, *args, **kwargs)`, and returns the result for `tf.get_variable`.

    Raises:
        ScopeError: `custom_getter` is not callable.
        GraphRequiredError: TensorFlow executes eagerly.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, custom_getter_scope
        >>> def in_float64(getter, name, *args, **kwargs):
        ...     return tf.cast(getter(name, *args, **{**kwargs, "dtype": tf.float64}), tf.float32)
        >>> with tf.Graph().as_default(), custom_getter_scope(in_float64):
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3)
        ...     [v.dtype.base_dtype.name for v in tf.trainable_variables()]
        ['float64', 'float64']
    """
    _check_callable("custom_getter_scope", "custom_getter", custom_getter)
    check_graph_mode("custom_getter_scope")
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def remap_variables(fn: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces each variable requested within a `with` block by a function of it.

    The variables are created, trained and saved as usual; layers compute with the results of the function.
    The function receives all variables, including moving averages: return these unchanged, since layers
    assign to them.

    Args:
        fn: takes a variable, and returns the tensor to compute with, or the variable.

    Raises:
        ScopeError: `fn` is not callable; or, when a variable is requested, `fn` returns `None`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, remap_variables
        >>> def binarize(variable):
        ...     return tf.sign(variable) if variable.op.name.endswith("/W") else variable
        >>> with tf.Graph().as_default(), remap_variables(binarize):
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3)
        ...     out.variables.W.op.type, [v.name for v in tf.trainable_variables()]
        ('Sign', ['fc/W:0', 'fc/b:0'])
    """
    _check_callable("remap_variables", "fn", fn)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        variable = getter(name, *args, **kwargs)
        with name_scope_of_layer():
            mapped = fn(variable)
        if mapped is None:
            raise ScopeError(
                f"remap_variables: fn returned None for the variable {name!r}. Return a tensor, or the "
                "variable itself to keep it unchanged."
            )
        return mapped

    return custom_getter_scope(get)


def rename_get_variable(mapping: Mapping[str, str]) -> contextlib.AbstractContextManager[None]:
    """Renames variables requested within a `with` block.

    Args:
        mapping: maps last parts of variable names to new ones: with `{"kernel": "W"}`, `fc/kernel` becomes
            `fc/W`. All other names are unchanged.

    Raises:
        ScopeError: `mapping` is not a dictionary from names to names.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rename_get_variable
        >>> with tf.Graph().as_default(), rename_get_variable({"kernel": "W"}), tf.variable_scope("fc"):
        ...     tf.get_variable("kernel", [2, 3]).name
        'fc/W:0'
    """
    names = _check_mapping(mapping)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        return getter(f"{scope}{slash}{names.get(last, last)}", *args, **kwargs)

    return custom_getter_scope(get)


def rename_tflayer_get_variable() -> contextlib.AbstractContextManager[None]:
    """Renames variables of `tf.layers` within a `with` block to the names used by this wheel's layers.

    It calls `rename_get_variable` to rename `kernel`, `bias`, `moving_mean` and `moving_variance` to `W`,
    `b`, `mean/EMA` and `variance/EMA`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rename_tflayer_get_variable
        >>> with tf.Graph().as_default(), rename_tflayer_get_variable():
        ...     tf.get_variable("bn/moving_mean", [3]).name
        'bn/mean/EMA:0'
    """
    return rename_get_variable(_NAMES_OF_TF_LAYERS)


def name_scope_of_layer() -> contextlib.AbstractContextManager[Any]:
    """Opens the name scope of the current variable scope, for ops created by a getter.

    TensorFlow calls getters outside of any name scope, so that all towers find variables by the same name.
    """
    scope: contextlib.AbstractContextManager[Any] = tf.name_scope(tf.get_variable_scope().original_name_scope)
    return scope


def _check_callable(call: str, argument: str, function: object) -> None:
    if not callable(function):
        raise ScopeError(f"{call}: {argument} must be a function, received {function!r}.")


def _check_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy of a mapping of names."""
    names = dict(mapping) if isinstance(mapping, Mapping) else {"": ""}
    for old, new in names.items():
        is_name = isinstance(old, str) and isinstance(new, str) and old and new
        if not is_name or "/" in old or new.startswith("/") or new.endswith("/"):
            raise ScopeError(
                f"rename_get_variable: mapping must be a dictionary from the last part of a variable's name "
                f"to its new name, such as {{'kernel': 'W'}}, received {mapping!r}."
            )
    return names


def freeze_variables(
    stop_gradient: bool = True, skip_collection: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Prevents the training of variables requested within a `with` block.

    `skip_collection=True` freezes the variables completely and is the usual choice. `stop_gradient=True`
    stops only the gradient through this use of the variable: other uses, and weight decay, still train it;
    and `tf.get_variable` returns a tensor. Both have no effect on non-trainable variables, such as moving
    averages.

    Args:
        stop_gradient: return variables through `tf.stop_gradient`.
        skip_collection: do not add variables to `TRAINABLE_VARIABLES`. They are in `GLOBAL_VARIABLES` and
            `MODEL_VARIABLES`, so checkpoints and exports contain them.

    Raises:
        ScopeError: an argument is not a bool.
        FrozenVariableError: with `skip_collection`, a requested variable was created outside of such a block
            and is trainable.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, freeze_variables
        >>> with tf.Graph().as_default():
        ...     with freeze_variables(stop_gradient=False, skip_collection=True):
        ...         x = FullyConnected("fc0", tf.ones([1, 2]), 3)
        ...     out = FullyConnected("fc1", x, 1)
        ...     [v.name for v in tf.trainable_variables()], [v.name for v in tf.model_variables()]
        (['fc1/W:0', 'fc1/b:0'], ['fc0/W:0', 'fc0/b:0'])
    """
    for argument, value in (("stop_gradient", stop_gradient), ("skip_collection", skip_collection)):
        if not isinstance(value, bool):
            raise ScopeError(f"freeze_variables: {argument} must be True or False, received {value!r}.")

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if not _would_train(kwargs):
            return getter(name, *args, **kwargs)
        if skip_collection:
            variable = getter(name, *args, **_not_trained(kwargs))
            _check_frozen(name, variable)
        else:
            variable = getter(name, *args, **kwargs)
        if not stop_gradient:
            return variable
        with name_scope_of_layer():
            return tf.stop_gradient(variable, name=f"{name.rpartition('/')[2]}_frozen")

    return custom_getter_scope(get)


def _would_train(kwargs: dict[str, Any]) -> bool:
    # With `None`, TensorFlow decides: it trains all variables except those that are aggregated on reading.
    trainable = kwargs.get("trainable")
    on_read = kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
    return bool(trainable) or (trainable is None and not on_read)


def _not_trained(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments for a variable that is not trained but belongs to the model.

    TensorFlow itself adds the variable to the collection at its creation, for any class of variable, so it is
    added only once even if several towers share it.
    """
    collections = list(kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES])
    model = [] if tf.GraphKeys.MODEL_VARIABLES in collections else [tf.GraphKeys.MODEL_VARIABLES]
    return {**kwargs, "trainable": False, "collections": [*collections, *model]}


def _check_frozen(name: str, variable: Any) -> None:
    parts = list(variable) if hasattr(variable, "_get_variable_list") else [variable]
    if any(getattr(part, "trainable", False) for part in parts):
        raise FrozenVariableError(
            f"freeze_variables: the variable {name!r} already exists and is trainable: it was created "
            "outside of a block with skip_collection=True, and can no longer be frozen. Put such a block "
            "around the call that creates it, in every tower."
        )


@contextlib.contextmanager
def mixed_precision(compute_dtype: tf.DType = tf.bfloat16) -> Iterator[None]:
    """Makes the layers of a block compute in 16 bits, with float32 variables.

    Layers cast their float32 input tensors. Variables requested in 16 bits, as layers do for the dtype of
    their input, are stored as float32 and cast when read. Variables requested as float32 are not cast, nor
    are the statistics, the scale and the offset of `BatchNorm`. Names and checkpoints equal those of a
    float32 model, gradients are float32, and weight decay acts on the float32 values. Outputs have 16 bits:
    cast the last one to float32 for the loss.

    bfloat16 has the range of float32 and needs nothing else; float16 needs a loss scale, such as
    `towerpack_trainers.DynamicLossScaleOptimizer`. A layer's `.variables` holds the tensors used in its
    computation, here the values in 16 bits.

    After Micikevicius et al., "Mixed Precision Training" (2018), arXiv:1710.03740, and Kalamkar et al., "A
    Study of BFLOAT16 for Deep Learning Training" (2019), arXiv:1905.12322.

    Args:
        compute_dtype: `tf.bfloat16` or `tf.float16`.

    Raises:
        TypeError: `compute_dtype` is another type.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, mixed_precision
        >>> with tf.Graph().as_default():
        ...     with mixed_precision(tf.bfloat16):
        ...         logits = FullyConnected("fc", tf.ones([2, 3]), 4)
        ...     logits.dtype.name, tf.trainable_variables()[0].dtype.base_dtype.name
        ('bfloat16', 'float32')
    """
    try:
        dtype = tf.as_dtype(compute_dtype)
    except TypeError:
        dtype = None
    if dtype not in (tf.bfloat16, tf.float16):
        raise TypeError(f"mixed_precision({compute_dtype!r}): expected tf.bfloat16 or tf.float16.")
    scope, getter = tf.get_variable_scope(), _float32_masters(dtype)
    with computing_in(dtype), tf.variable_scope(scope, custom_getter=getter, auxiliary_name_scope=False):
        yield


def _float32_masters(dtype: tf.DType) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("dtype")
        if wanted is None or tf.as_dtype(wanted) != dtype:
            return getter(name, *args, **kwargs)
        if tf.is_tensor(kwargs.get("initializer")):
            kwargs["initializer"] = tf.cast(kwargs["initializer"], tf.float32)
        master = getter(name, *args, **{**kwargs, "dtype": tf.float32})
        return tf.cast(master, dtype)

    return get


@contextlib.contextmanager
def spectral_norm_scope(*, iterations: int = 1, training: bool | None = None) -> Iterator[None]:
    """Divides weights by their largest singular value, after Miyato et al. (2018), arXiv:1802.05957.

    For a trainable variable with at least two axes, `tf.get_variable` in the scope returns the weight divided
    by an estimate of this value, where the weight is reshaped to a matrix with the last axis as columns.
    Layers need no changes. The regularizers of a layer receive the variable itself.

    The estimate is computed by power iteration, which starts with the final vector of the previous step: the
    non-trainable variable `<weight>/u`, in `GLOBAL_VARIABLES` and `MODEL_VARIABLES`. All reads of one step,
    in all towers that share the variable, use the same estimate, and the vector is stored once per step.
    Gradients flow through the estimate, with its vectors as constants. In inference the estimate is the same,
    and the vector is not stored.

    Args:
        iterations: power iterations in each step.
        training: whether to store the vector; by default the `is_training` of the tower that requests a
            weight.

    Raises:
        TowerError: a weight is requested outside any tower, and `training` is not given.
        ValueError: `iterations` is not a positive int.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, TowerContext, spectral_norm_scope
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True), spectral_norm_scope():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)
        ...     [v.op.name for v in tf.global_variables()]
        ['fc/W', 'fc/W/u', 'fc/b']
    """
    iterations = check_count("spectral_norm_scope", "iterations", iterations)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        weight = getter(name, *args, **kwargs)
        rank = weight.get_shape().rank
        if kwargs.get("trainable") is False or rank is None or rank < 2:
            return weight
        stores = resolve_training(f"spectral_norm_scope of {name!r}", training)
        return _divide(weight, name, _make_vector(getter, weight, name, kwargs), iterations, stores)

    scope = tf.variable_scope(tf.get_variable_scope(), custom_getter=get, auxiliary_name_scope=False)
    with scope:
        yield


def _divide(weight: Any, name: str, vector: Any, iterations: int, stores: bool) -> tf.Tensor:
    """Returns a weight divided by its largest singular value."""
    value = tf.convert_to_tensor(weight)
    matrix = tf.cast(tf.reshape(value, [-1, value.shape[-1]]), vector.dtype.base_dtype)

    def estimate() -> list[tf.Tensor]:
        left, right = _iterate(tf.stop_gradient(matrix), vector.read_value(), iterations)
        stored = [vector.assign(right, read_value=False)] if stores else []
        with tf.control_dependencies(stored):
            return [tf.identity(left), tf.identity(right)]

    # In inference each tower computes its own estimate, since that of a training tower is also stored.
    left, right = shared_by_towers(f"singular vectors of {name}", estimate) if stores else estimate()
    largest = tf.tensordot(left, tf.linalg.matvec(matrix, right), 1)
    return tf.divide(value, tf.cast(largest, value.dtype), name="spectral_norm")


def _iterate(matrix: tf.Tensor, right: tf.Tensor, iterations: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Estimates the singular vectors of a matrix by power iteration, starting from the right one."""
    left = right
    for _ in range(iterations):
        left = tf.math.l2_normalize(tf.linalg.matvec(matrix, right))
        right = tf.math.l2_normalize(tf.linalg.matvec(matrix, left, transpose_a=True))
    return tf.stop_gradient(left), tf.stop_gradient(right)


def _make_vector(getter: Callable[..., Any], weight: Any, name: str, kwargs: dict[str, Any]) -> Any:
    """Returns the variable with the right singular vector of a weight."""
    options = {
        **kwargs,
        "shape": [weight.get_shape().as_list()[-1]],
        "dtype": tf.float64 if weight.dtype.base_dtype == tf.float64 else tf.float32,
        "initializer": tf.random_normal_initializer(),
        "regularizer": None,
        "constraint": None,
        "partitioner": None,
        "trainable": False,
        "collections": [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
    }
    made = getter(f"{name}/u", **options)
    if hasattr(made, "assign"):
        return made
    # An enclosing scope has replaced the variable by a tensor.
    known = [*tf.global_variables(), *tf.local_variables(), *tf.model_variables()]
    return next(variable for variable in known if variable.op.name == f"{name}/u")
