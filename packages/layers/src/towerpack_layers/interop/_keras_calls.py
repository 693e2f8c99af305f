"""Calls of Keras 3 and tf_keras models with values from a tower's variables."""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError
from ..nn._random_tensors import generator_of_step, seeded_tower
from ..registry._layer_scope import layer_scope, name_output
from ..tower._keras_in_towers import adapting_keras
from ..tower._tower_context import get_current_tower_context, graph_notes

__all__ = [
    "Keras3Call",
    "TfKerasCall",
    "current_state",
    "detached",
    "fresh_seed",
    "initial_value",
    "is_seed",
    "library_of",
    "make_aside",
    "make_detached",
    "make_eagerly",
    "make_other_generator",
    "update_states",
]


# The collection of the separate graph's variables, each with the function or tensor of its initial value.
_INITIAL_VALUES = "towerpack_initial_values"
_SET_BY_USER = "global_random_seed"
_KEPT_BY_KERAS = ("object_name_uids", "global_seed_generator")


def library_of(candidate: object) -> str | None:
    """Returns "keras" for a layer or model of Keras 3, "tf_keras" for one of tf_keras, else `None`."""
    for kind in type(candidate).__mro__:
        package = kind.__module__.partition(".")[0]
        if kind.__name__ == "Layer" and package in {"keras", "tf_keras"}:
            return package
    return None


def make_aside(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a model in a separate graph, to inspect the model."""
    with tf.Graph().as_default(), _fresh_keras():
        return make()


def make_detached(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a Keras 3 model, with variables in a separate graph."""
    with detached(), tf.name_scope("use_keras"):
        return make()


def make_eagerly(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a Keras 3 model in eager mode, in which Keras can load and set weights."""
    with tf.compat.v2.__internal__.eager_context.eager_mode(), _fresh_keras():
        return make()


@contextlib.contextmanager
def detached() -> Iterator[None]:
    """Creates the variables of this block in a separate graph, where the rules of towers do not apply.

    Keras restarts its automatic names in this block, as in a new process.
    """
    aside = tf.Graph()

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        first = arguments["initial_value"]
        given = {key: arguments[key] for key in ("name", "dtype", "trainable") if key in arguments}
        with aside.as_default():
            value = first if callable(first) else tf.zeros(first.shape, first.dtype)
            variable = tf.compat.v2.Variable(value, **given)
            aside.add_to_collection(_INITIAL_VALUES, (variable, first))
        return variable

    with _fresh_keras(), tf.variable_creator_scope(create):
        yield


def initial_value(call: str, variable: Any) -> Callable[[], Any]:
    """Returns a function that creates the initial value of a model's variable in any graph.

    Args:
        call: the label of the call, for errors.
        variable: a variable of Keras 3.

    Raises:
        KerasLayerError: the variable belongs to a graph that this module did not create.
    """
    own = variable.value
    if hasattr(own.handle, "numpy"):
        return lambda: _read_eagerly(own)
    for known, first in own.graph.get_collection(_INITIAL_VALUES):
        if known is own:
            return first if callable(first) else functools.partial(tf.identity, first)
    raise KerasLayerError(
        f"{call}: its variable {variable.path!r} was made in a graph, outside of use_keras. Pass use_keras "
        "the function that makes the model, instead of the model."
    )


@contextlib.contextmanager
def _fresh_keras() -> Iterator[None]:
    """Resets Keras's global state for this block; Keras has no public API for this.

    This state is the counts of automatic names, and the generator for calls without a seed, which Keras
    creates in the first graph that needs it. Initial values depend on the tower's seed, if it has one, or on
    that of `keras.utils.set_random_seed`.
    """
    from keras.src.backend.common import global_state

    before = {key: global_state.get_global_attribute(key) for key in _KEPT_BY_KERAS}
    for key in _KEPT_BY_KERAS:
        global_state.set_global_attribute(key, None)
    user_seed = global_state.get_global_attribute(_SET_BY_USER)
    try:
        with _seeded_initializers() if user_seed is None else contextlib.nullcontext():
            yield
    finally:
        for key, value in before.items():
            global_state.set_global_attribute(key, value)


@contextlib.contextmanager
def _seeded_initializers() -> Iterator[None]:
    """Makes initial values in this block depend on the tower's seed, if it has one.

    Keras draws the seed of each initializer from Python's generator, which continues as before afterwards.
    """
    tower = get_current_tower_context()
    if tower is None or tower.random_seed is None:
        yield
        return
    drawn, number = random.getstate(), len(tf.get_default_graph().get_operations())
    # Several models of a tower differ by their scopes, or by the ops before them.
    random.seed(f"{tower.random_seed} {tf.get_variable_scope().name} {number}")
    try:
        yield
    finally:
        random.setstate(drawn)


def _read_eagerly(variable: Any) -> Any:
    with tf.compat.v2.__internal__.eager_context.eager_mode():
        return variable.numpy()


def is_seed(variable: Any) -> bool:
    """Returns whether a variable of Keras is the state of a `keras.random.SeedGenerator`."""
    return str(variable.name) == "seed_generator_state"


def fresh_seed(call: str) -> tf.Tensor:
    """Returns a state for a `keras.random.SeedGenerator` that differs at each step.

    In a tower with a `random_seed` and a `step` it depends only on these, the tower and the position in the
    graph.

    Args:
        call: the label of the call, for errors.
    """
    tower = seeded_tower()
    with tf.name_scope("seed") as scope:
        if tower is None:
            return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int64)
        generator = generator_of_step(call, tower, scope, None)
        bits = tf.raw_ops.StatelessRandomUniformFullIntV2(shape=[2], dtype=tf.uint32, **generator)
        return tf.cast(bits, tf.int64)


def make_other_generator() -> Any:
    """Makes a generator for layers without one, replacing the global generator of Keras.

    It must be called within `detached`, which restores the global generator.
    """
    import keras
    from keras.src.backend.common import global_state

    generator = keras.random.SeedGenerator(name="other_random_numbers")
    global_state.set_global_attribute("global_seed_generator", generator)
    return generator


def current_state(variable: Any) -> Any:
    """Returns the variable, or its new value from an earlier call in this tower."""
    update = _last_update(variable)
    return variable if update is None else update.inputs[1]


def update_states(call: str, values: Sequence[tuple[Any, tf.Tensor]]) -> None:
    """Adds ops to `UPDATE_OPS` that assign variables, after those of earlier calls in this tower.

    Args:
        call: the label of the call, for errors.
        values: variables and their new values.

    Raises:
        KerasLayerError: a value is computed in a body of control flow.
    """
    for variable, value in values:
        if value.graph is not tf.get_default_graph():
            raise KerasLayerError(
                f"{call}: the state {variable.op.name!r} is computed within a loop of the model and cannot "
                "be assigned outside of it. Remove the layer that changes it there."
            )
        last = _last_update(variable)
        with tf.control_dependencies([] if last is None else [last]):
            update = variable.assign(value, read_value=False)
        graph_notes().moved[_place(variable)] = update.name
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)


def _last_update(variable: Any) -> tf.Operation | None:
    name = graph_notes().moved.get(_place(variable))
    return None if name is None else tf.get_default_graph().get_operation_by_name(name)


def _place(variable: Any) -> tuple[str, ...]:
    tower = get_current_tower_context()
    return ("use_keras", variable.name, "" if tower is None else tower.name)


@final
class Keras3Call:
    """One call of a layer or model of Keras 3.

    Within a `keras.StatelessScope`, Keras computes with given values of all variables, and stores new values
    and costs in the scope instead of assigning or dropping them.

    Args:
        model: the layer or model.

    Raises:
        KerasLayerError: Keras uses a backend other than TensorFlow, or the model was built in a graph.

    Attributes:
        name: the model's name, which is the scope of its variables.
        label: its name in errors.
    """

    def __init__(self, model: Any) -> None:
        import keras

        self.name: str = model.name
        self.label = f"use_keras({self.name!r})"
        if keras.backend.backend() != "tensorflow":
            raise KerasLayerError(
                f"{self.label}: Keras uses the backend {keras.backend.backend()}; expected tensorflow. "
                "Start the process with the environment variable KERAS_BACKEND=tensorflow."
            )
        if model.built:
            for variable in model.variables:
                initial_value(self.label, variable)
                _free_of_eager_tensors(variable.regularizer)
            for layer in model._flatten_layers():
                _free_of_eager_tensors(layer.activity_regularizer)
        self._model = model

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Any:
        """Makes the variables, calls the model, and adds costs and updates to their collections.

        Raises:
            KerasLayerError: the model cannot be adapted.
        """
        import keras

        with layer_scope("use_keras", self.name):
            self._build(args, kwargs, training)
            variables = self._model.variables
            weights = self._make_variables()
            values = [(variable, self._value(variable, weights, training)) for variable in variables]
            with detached():
                values.append((make_other_generator().state, fresh_seed(self.label)))
                scope = keras.StatelessScope(values, collect_losses=True, initialize_variables=False)
                # Keras has converted the values to tensors, and their identity shows which ones have changed.
                given = {id(variable): scope.get_current_value(variable) for variable, _ in values}
                with scope:
                    result = self._model(*args, training=training, **kwargs)
            self._check_nothing_else(scope, given)
            if training:
                changed = [
                    (v, new) for v in variables if (new := scope.get_current_value(v)) is not given[id(v)]
                ]
                self._update(changed, weights)
                tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES).extend(scope.losses)
            return _with_mask_of(result, name_output(self.label, result))

    def _build(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> None:
        import keras

        def symbol(value: Any) -> Any:
            return keras.KerasTensor(value.shape, value.dtype.name) if tf.is_tensor(value) else value

        if not self._model.built:
            with detached():
                inputs, options = tf.nest.map_structure(symbol, (list(args), dict(kwargs)))
                self._model(*inputs, training=training, **options)

    def _make_variables(self) -> dict[int, Any]:
        """Creates the variables of the graph, and returns them by the identity of the model's variables."""
        trained = {id(variable) for variable in self._model.trainable_variables}
        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, auxiliary_name_scope=False) as scope:
            # Partitioners and regularizers of an outer scope must not apply to Keras's variables.
            scope.set_partitioner(None)
            return {
                id(variable): self._make_variable(name, variable, id(variable) in trained)
                for name, variable in self._named_variables()
            }

    def _make_variable(self, name: str, variable: Any, trainable: bool) -> Any:
        first = initial_value(self.label, variable)
        regularizer = variable.regularizer if trainable else None
        return tf.get_variable(
            name,
            variable.shape,
            tf.as_dtype(variable.dtype),
            lambda shape, dtype=None: tf.cast(first(), dtype),
            regularizer=regularizer or tf.no_regularizer,
            constraint=variable.constraint,
            trainable=trainable,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
        )

    def _named_variables(self) -> Iterator[tuple[str, Any]]:
        """Yields the variables with their paths in the model; parts of a model may share a path."""
        counts: dict[str, int] = {}
        for variable in self._model.variables:
            if is_seed(variable):
                continue
            path = variable.path.removeprefix(f"{self.name}/")
            counts[path] = counts.get(path, 0) + 1
            yield path if counts[path] == 1 else f"{path}_{counts[path] - 1}", variable

    def _value(self, variable: Any, weights: Mapping[int, Any], training: bool) -> Any:
        weight = weights.get(id(variable))
        if weight is None:
            return fresh_seed(self.label)
        return current_state(weight) if training else weight

    def _update(self, changed: Sequence[tuple[Any, tf.Tensor]], weights: Mapping[int, Any]) -> None:
        changed = [(variable, value) for variable, value in changed if not is_seed(variable)]
        trained = {id(variable) for variable in self._model.trainable_variables}
        wrong = [variable.path for variable, _ in changed if id(variable) in trained]
        if wrong:
            raise KerasLayerError(
                f"{self.label}: a layer sets {', '.join(wrong)}, which the optimizer also trains; the two "
                "updates would race. Remove the layer that sets it (such as "
                "keras.layers.SpectralNormalization)."
            )
        update_states(self.label, [(weights[id(variable)], value) for variable, value in changed])

    def _check_nothing_else(self, scope: Any, given: Mapping[int, Any]) -> None:
        if set(scope.state_mapping) - set(given):
            raise KerasLayerError(
                f"{self.label}: a layer changes variables that do not belong to the model. Create all of "
                "them in the layer's build(), by self.add_weight."
            )


def _with_mask_of(result: Any, named: Any) -> Any:
    """Returns the named result with the mask that Keras attached to the result, for losses."""
    mask = getattr(result, "_keras_mask", None)
    if mask is not None:
        named._keras_mask = mask
    return named


def _free_of_eager_tensors(regularizer: Any) -> None:
    """Converts eager tensors in a regularizer to numbers, which any graph accepts."""
    for name, value in list(getattr(regularizer, "__dict__", {}).items()):
        if tf.is_tensor(value) and hasattr(value, "numpy"):
            setattr(regularizer, name, value.numpy())


@final
class TfKerasCall:
    """One call of a layer or model of tf_keras, which is made for this call.

    Random numbers come from TensorFlow's stateful generator: they differ at each step, and in a resumed run.

    Args:
        name: the model's name, which is the scope of its variables.
        make: makes the model.

    Attributes:
        label: its name in errors.
    """

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.label = f"use_keras({name!r})"
        self._make = make

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Any:
        """Makes the model, calls it, and adds costs and updates to their collections.

        Raises:
            KerasLayerError: the model has averages and is called a second time in this tower.
        """
        graph = tf.get_default_graph()
        with layer_scope("use_keras", self.name):
            with adapting_keras(), _variables_of_scope(self.name), _fresh_names():
                with _learning_phase(False):
                    model = self._make()
                begin = len(graph.get_operations())
                with _learning_phase(training):
                    result = _call(model, args, kwargs, training)
                called = graph.get_operations()[begin:]
            if training:
                self._collect(model, called)
            return name_output(self.label, result)

    def _collect(self, model: Any, called: Sequence[tf.Operation]) -> None:
        initializers = {variable.initializer.name for variable in tf.global_variables()}
        updates = [op for op in called if op.type.startswith("Assign") and op.name not in initializers]
        if updates:
            self._check_first(updates[0])
        tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)
        by_name = {op.name for op in called}
        # A functional model also has costs of outputs for its symbolic inputs, which no call computes.
        costs = [cost for cost in model.losses if cost.op.name in by_name or _is_of_a_variable(cost)]
        if tf.get_variable_scope().reuse:
            costs = [cost for cost in costs if not _is_of_a_variable(cost)]
        tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES).extend(costs)

    def _check_first(self, update: tf.Operation) -> None:
        tower, moved = get_current_tower_context(), graph_notes().moved
        place = ("use_keras", tf.get_variable_scope().name, "" if tower is None else tower.name)
        if place in moved:
            raise KerasLayerError(
                f"{self.label}: this tf_keras model has averages and is called a second time in this tower: "
                "the updates would race. Use a Keras 3 model, in which calls wait for each other."
            )
        moved[place] = update.name


def _is_of_a_variable(cost: tf.Tensor) -> bool:
    return "/Regularizer/" in cost.name


def _call(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Any:
    takes = "training" in inspect.signature(model.call).parameters
    return model(*args, **kwargs, **({"training": training} if takes else {}))


def _learning_phase(training: bool) -> AbstractContextManager[Any]:
    """Sets the learning phase, the default of `training=` in layers; symbolic inputs use inference."""
    from tf_keras.src import backend

    scope: AbstractContextManager[Any] = backend.deprecated_internal_learning_phase_scope(int(training))
    return scope


@contextlib.contextmanager
def _variables_of_scope(name: str) -> Iterator[None]:
    """Creates the variables of this block with `tf.get_variable`, under the layers' name scopes."""
    graph = tf.get_default_graph()
    around = f"{graph.get_name_scope()}/"
    busy: list[bool] = []

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        if busy:
            return next_creator(**arguments)
        scope = f"{graph.get_name_scope()}/".removeprefix(around).removeprefix(f"{name}/")
        busy.append(True)
        try:
            return _get_variable(f"{scope}{arguments.get('name') or 'variable'}", arguments)
        finally:
            busy.pop()

    with tf.variable_creator_scope(create):
        yield


def _get_variable(name: str, arguments: Mapping[str, Any]) -> Any:
    first = arguments["initial_value"]
    trainable = arguments.get("trainable") is not False
    shape = arguments.get("shape")
    if shape is None:
        with tf.Graph().as_default():
            shape = first().shape
    return tf.get_variable(
        name,
        shape,
        arguments.get("dtype"),
        lambda shape, dtype=None: first(),
        regularizer=tf.no_regularizer,
        constraint=arguments.get("constraint"),
        trainable=trainable,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
    )


@contextlib.contextmanager
def _fresh_names() -> Iterator[None]:
    """Restarts tf_keras's automatic names in this block.

    tf_keras has no public API for this that keeps the counts of other models.
    """
    from tf_keras.src import backend

    counts = backend.get_default_graph_uid_map()
    before = dict(counts)
    counts.clear()
    try:
        yield
    finally:
        counts.clear()
        counts.update(before)
