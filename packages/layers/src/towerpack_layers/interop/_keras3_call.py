"""Calls a Keras 3 model with values from a tower's variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError
from ..registry import layer_scope, name_output
from ._detached_variables import detached, initial_value
from ._fresh_seeds import fresh_seed, is_seed, make_other_generator
from ._state_updates import current_state, update_states

__all__ = ["Keras3Call"]


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
                "Start the process with the "
                f"environment variable KERAS_BACKEND=tensorflow."
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
