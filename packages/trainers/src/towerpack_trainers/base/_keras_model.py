"""`KerasModel`: compile and fit a Keras model as in Keras, with a trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, ScalarStats, add_moving_summary
from towerpack_layers import regularize_cost_from_collection
from towerpack_layers.interop import KerasFunction, use_keras

from .._argument_checks import check_function, make_optimizer
from .._errors import ConfigError, ModelError, TrainerStateError
from ..config import TrainConfig
from ..towers._model_desc import ModelDesc
from ..towers._objective import MakeOptimizer
from ..towers._tower import check_specs
from ._keras_losses import OutputMetric, class_weights, cost_of, entries_of, losses_of, metrics_of
from ._tower_trainer import SimpleTrainer, SingleCostTrainer

__all__ = ["KerasModel"]

_Compared = Callable[[Any, Any], Any]  # of targets and outputs
_Loss = str | _Compared
_Metrics = _Loss | Sequence[Any] | Mapping[str, Any]

# Arguments of Keras's own `fit`, with their equivalents here.
_WRITTEN_INSTEAD = {
    "epochs": "max_epoch=",
    "initial_epoch": "starting_epoch=",
    "batch_size": "BatchData(flow, batch_size)",
    "validation_batch_size": "BatchData(flow, batch_size, remainder=True) as validation_data=",
    "shuffle": "DataFromArrays([images, labels], shuffle=True)",
    "x": "dataflow=",
    "sample_weight": "KerasModel(sample_weights=[a tf.TensorSpec]), and the weights as the last components",
    "y": "a flow of inputs and targets, such as DataFromArrays([x, y], shuffle=True), as dataflow=",
}


@final
class KerasModel:
    """Trains a Keras model with any single-cost trainer, through the methods that Keras users expect.

    `interop.use_keras` makes a new instance of the model for each tower, so the trainer decides how variables
    are shared or replicated; updates and regularizers count. Checkpoints, callbacks and resuming work as in
    all trainings.

    Args:
        make_model: a function without arguments that returns a Keras model; see `interop.use_keras`.
        inputs: a `tf.TensorSpec` for each input of the model; the first components of datapoints.
        targets: a `tf.TensorSpec` for each output of the model; the components after the inputs. If the model
            returns a dict, their names must equal its keys.
        trainer: the class of the trainer, or a function that takes a `TrainConfig` and returns a trainer.
        sample_weights: a `tf.TensorSpec` for the weights of examples or time steps in the losses and in
            `weighted_metrics`, or one for each target; the components after the targets.

    Attributes:
        model: the description of the compiled model, as for `PredictConfig(model=…)`. Its outputs are named
            `output`, or `output0`, `output1`, …

    Raises:
        ModelError: there is no input or no target, or a spec is not a `tf.TensorSpec` with a valid and unique
            name.
        TypeError: `trainer` is not callable.

    Example:
        >>> import keras
        >>> import numpy as np
        >>> import tensorflow.compat.v1 as tf
        >>> def make():
        ...     return keras.Sequential([keras.layers.Dense(1)], name="net")
        >>> x = np.linspace(0, 1, 8, dtype=np.float32).reshape(8, 1)
        >>> spec = tf.TensorSpec([None, 1], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")
        >>> line = KerasModel(make, [spec[0]], [spec[1]])
        >>> line.compile(lambda: tf.train.GradientDescentOptimizer(0.5), "mean_squared_error")
        >>> trainer = line.fit([[x, 2 * x]] * 50, max_epoch=2, log_dir=None, monitors=[], extra_callbacks=[])
        >>> trainer.global_step
        100
    """

    def __init__(
        self,
        make_model: Any,
        inputs: Sequence[tf.TensorSpec],
        targets: Sequence[tf.TensorSpec],
        trainer: Callable[[TrainConfig], SingleCostTrainer] = SimpleTrainer,
        sample_weights: Sequence[tf.TensorSpec] = (),
    ) -> None:
        """Checks the arguments. The model is made when a training builds its graph."""
        self._make_model = make_model
        self._inputs, self._targets, self._weights = list(inputs), list(targets), list(sample_weights)
        for name, specs in {"inputs": self._inputs, "targets": self._targets}.items():
            if not specs:
                raise ModelError(f"KerasModel({name}=[]): expected at least one tf.TensorSpec.")
        specs = [*self._inputs, *self._targets, *self._weights]
        check_specs(specs, "KerasModel(inputs=..., targets=..., sample_weights=...) takes")
        if len(self._weights) not in {0, 1, len(self._targets)}:
            raise ModelError(
                f"KerasModel(sample_weights=...) received {len(self._weights)} specs for "
                f"{len(self._targets)} targets; expected one, or one for each."
            )
        self._trainer = check_function("KerasModel(trainer=...)", trainer)
        self.model: ModelDesc | None = None

    def compile(
        self,
        optimizer: MakeOptimizer | tf.train.Optimizer,
        loss: _Loss | Sequence[_Loss | None] | Mapping[str, _Loss | None],
        metrics: _Metrics = (),
        *,
        loss_weights: float | Sequence[float] | Mapping[str, float] | None = None,
        weighted_metrics: _Metrics = (),
    ) -> None:
        """Sets the loss and the metrics, with the arguments of Keras; masks and sample weights count.

        Args:
            optimizer: a TensorFlow optimizer, or a function that makes one inside the graph; see
                `docs/optimizers.md`.
            loss: the name of a Keras loss ("sparse_categorical_crossentropy"), a loss object, or a function
                of targets and outputs. For several targets: one loss for all of them, or a list, or a dict
                keyed by their names, with one loss or None for each. The sum is minimized.
            metrics: names ("accuracy" and "acc" mean the same as in Keras), functions of target and output,
                or metrics such as `keras.metrics.BinaryAccuracy` that average over examples. For several
                targets: a list with an entry for each, or a dict keyed by their names, which gives
                statistics named `<target>_<metric>`; a single metric applies to the first target. An
                evaluation averages over batches.
            loss_weights: factors of the losses in the sum: a number, or a list or dict with one for each.
            weighted_metrics: like `metrics`; sample weights count.

        Raises:
            ConfigError: the number of losses differs from the number of targets; Keras has no loss or metric
                of that name; a loss does not reduce to one number; or a metric has state.
        """
        names = [spec.name for spec in self._targets]
        if isinstance(loss_weights, (int, float)):
            loss_weights = [loss_weights]
        measured = metrics_of("metrics", metrics, names)
        taken = {metric.name for metric in measured}
        for metric in metrics_of("weighted_metrics", weighted_metrics, names):
            name = f"weighted_{metric.name}" if metric.name in taken else metric.name
            measured.append(attrs.evolve(metric, name=name))
        self.model = _CompiledModel(
            use_keras(self._make_model),
            (self._inputs, self._targets, self._weights),
            losses_of(loss, names),
            None if loss_weights is None else entries_of("loss_weights", loss_weights, names),
            measured,
            optimizer,
        )

    def fit(
        self,
        dataflow: Any,
        validation_data: Any = None,
        class_weight: Mapping[int, float] | None = None,
        **config: Any,
    ) -> SingleCostTrainer:
        """Trains until the last epoch.

        Args:
            dataflow: datapoints of inputs, targets and sample weights, in batches; see `TrainConfig`.
            validation_data: batches for the evaluation of cost and metrics after each epoch.
            class_weight: the weight of an example in training, for each class of the only target; 1 for other
                classes.
            config: further arguments of `TrainConfig`, such as `max_epoch`, `callbacks` and `resume`.

        Returns:
            The trainer; its `monitors` hold all statistics.

        Raises:
            ConfigError: see `TrainConfig`; or class weights are combined with several targets or with sample
                weights.
            TrainerStateError: the model is not compiled.
            TypeError: an argument belongs to Keras's own `fit`; the message names its equivalent.
        """
        if not isinstance(self.model, _CompiledModel):
            raise TrainerStateError("KerasModel.fit() needs compile(optimizer, loss); call that first.")
        _check_names(config)
        self.model.class_weight = self._checked_classes(class_weight)
        trainer: SingleCostTrainer = self._trainer(TrainConfig(model=self.model, dataflow=dataflow, **config))
        if validation_data is not None:
            trainer.register_callback(InferenceRunner(validation_data, ScalarStats(self.model.statistics)))
        trainer.train()
        return trainer

    def _checked_classes(self, class_weight: Mapping[int, float] | None) -> Mapping[int, float] | None:
        if class_weight is not None and (self._weights or len(self._targets) > 1):
            raise ConfigError(
                "KerasModel.fit(class_weight=...) works with one target and without sample weights; received "
                f"{len(self._targets)} targets and {len(self._weights)} sample weights. Use "
                "KerasModel(sample_weights=...) only."
            )
        return class_weight


def _check_names(config: Mapping[str, Any]) -> None:
    for name in config:
        if name in _WRITTEN_INSTEAD:
            raise TypeError(f"KerasModel.fit() received {name}=; write {_WRITTEN_INSTEAD[name]} instead.")


@final
class _CompiledModel(ModelDesc):
    """The model description that `compile` makes.

    Attributes:
        statistics: the names of the cost and the metrics.
        class_weight: the weights of classes in training.
    """

    def __init__(
        self,
        network: KerasFunction,
        specs: tuple[list[tf.TensorSpec], list[tf.TensorSpec], list[tf.TensorSpec]],
        losses: list[Any],
        loss_weights: list[float] | None,
        metrics: list[OutputMetric],
        optimizer: MakeOptimizer | tf.train.Optimizer,
    ) -> None:
        self._network, self._losses, self._loss_weights, self._metrics = (
            network,
            losses,
            loss_weights,
            metrics,
        )
        self._specs = specs
        self._optimizer = optimizer
        self.statistics = ["cost", *(metric.name for metric in metrics)]
        self.class_weight: Mapping[int, float] | None = None

    def inputs(self) -> list[tf.TensorSpec]:
        return [spec for specs in self._specs for spec in specs]

    def build_graph(self, *tensors: tf.Tensor) -> tf.Tensor:
        given = iter(tensors)
        inputs, targets, weights = ([next(given) for _ in specs] for specs in self._specs)
        outputs = self._checked(self._network(inputs[0] if len(inputs) == 1 else inputs))
        for place, output in enumerate(outputs):
            tf.identity(output, name="output" if len(outputs) == 1 else f"output{place}")
        weight = self._weight_of_each(weights, targets)
        losses = cost_of(self._losses, self._loss_weights, targets, outputs, weight)
        regularized = tf.cast(regularize_cost_from_collection(), losses.dtype)
        cost = tf.add(losses, regularized, name="cost")
        measured = [
            metric.value(targets[metric.place], outputs[metric.place], weight[metric.place])
            for metric in self._metrics
        ]
        if self.training:
            add_moving_summary(cost, *measured)
        return cost

    def _checked(self, outputs: Any) -> list[tf.Tensor]:
        """Returns the outputs in the order of the targets."""
        names = [spec.name for spec in self._specs[1]]
        if isinstance(outputs, Mapping):
            if set(outputs) != set(names):
                raise ModelError(
                    f"The Keras model has the outputs {', '.join(outputs)}, but KerasModel(targets=...) has "
                    f"{', '.join(names)}; expected the same names."
                )
            return [outputs[name] for name in names]
        listed = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        if len(listed) != len(names):
            raise ModelError(
                f"The Keras model has {len(listed)} outputs, but KerasModel(targets=...) has "
                f"{len(names)} specs; expected one for each output."
            )
        return listed

    def _weight_of_each(
        self, weights: list[tf.Tensor], targets: list[tf.Tensor]
    ) -> Sequence[tf.Tensor | None]:
        if self.class_weight is not None and self.training:
            return [class_weights(targets[0], self.class_weight)]
        if len(weights) == len(targets):
            return weights
        return (weights or [None]) * len(targets)

    def optimizer(self) -> tf.train.Optimizer:
        return make_optimizer(self._optimizer, ConfigError)
