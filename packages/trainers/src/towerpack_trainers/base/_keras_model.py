"""`KerasModel`: a Keras model that is compiled and fitted as in Keras, by a trainer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, ScalarStats, add_moving_summary
from towerpack_layers import regularize_cost_from_collection
from towerpack_layers.interop import KerasFunction, use_keras

from .._argument_checks import check_function, make_optimizer
from .._errors import ConfigError, ModelError, TrainerStateError
from ..config._train_config import TrainConfig
from ..towers._model_desc import ModelDesc
from ..towers._objective import MakeOptimizer
from ..towers._tower import check_specs
from ._single_cost import SimpleTrainer, SingleCostTrainer

__all__ = ["KerasModel"]

_Compared = Callable[[Any, Any], Any]  # of targets and outputs
_ACCURACIES = {"accuracy", "acc"}

# What Keras's own `fit` takes, and a training here has elsewhere.
_WRITTEN_INSTEAD = {
    "epochs": "max_epoch=",
    "initial_epoch": "starting_epoch=",
    "batch_size": "BatchData(flow, batch_size)",
    "validation_batch_size": "BatchData(flow, batch_size, remainder=True) as validation_data=",
    "shuffle": "DataFromArrays([images, labels], shuffle=True)",
    "x": "dataflow=",
    "y": "a flow of inputs and targets, such as DataFromArrays([x, y], shuffle=True), as dataflow=",
}


@final
class KerasModel:
    """Trains a Keras model by any trainer of one cost, behind the methods that Keras has.

    The model is made anew for each tower by `interop.use_keras`, so variables are shared or replicated, and
    updates and regularizers count, as the trainer says. Checkpoints, callbacks and resuming are those of all
    trainings.

    Args:
        make_model: a function without arguments that returns a Keras model; see `interop.use_keras`.
        inputs: a `tf.TensorSpec` for each input of the model; the first components of datapoints.
        targets: a `tf.TensorSpec` for each output of the model; the components behind them.
        trainer: the class of the trainer, or a function of a `TrainConfig` that makes one.

    Attributes:
        model: the description of the model, once it is compiled, as for `PredictConfig(model=…)`. Its
            outputs are named `output`, or `output0`, `output1`, …

    Raises:
        ModelError: there is no input or no target, or they are not distinct, well-named `tf.TensorSpec`s.
        TypeError: `trainer` cannot be called.

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
    ) -> None:
        """Checks the arguments; the model is made when a training builds its graph."""
        self._make_model = make_model
        self._inputs, self._targets = list(inputs), list(targets)
        for name, specs in {"inputs": self._inputs, "targets": self._targets}.items():
            if not specs:
                raise ModelError(f"KerasModel({name}=[]): expected a tf.TensorSpec for each; there is none.")
        check_specs([*self._inputs, *self._targets], "KerasModel(inputs=..., targets=...) takes")
        self._trainer = check_function("KerasModel(trainer=...)", trainer)
        self.model: ModelDesc | None = None

    def compile(
        self,
        optimizer: MakeOptimizer | tf.train.Optimizer,
        loss: str | _Compared | Sequence[str | _Compared],
        metrics: str | _Compared | Sequence[str | _Compared] = (),
    ) -> None:
        """Says what is minimized and what is measured.

        Args:
            optimizer: of TensorFlow, or a function that makes one inside the graph; see `docs/optimizers.md`.
            loss: the name of a loss of Keras ("sparse_categorical_crossentropy"), a loss object, or a
                function of targets and outputs; a list of as many as there are targets, whose sum is
                minimized.
            metrics: names ("accuracy" and "acc" mean what they do in Keras) or functions of the first target
                and output, each the mean over examples. They have no state: an evaluation averages batches.

        Raises:
            ConfigError: there are other numbers of losses than of targets; a name is none of Keras's; or a
                metric has a state.
        """
        losses = list(loss) if isinstance(loss, (list, tuple)) else [loss]
        if len(losses) != len(self._targets):
            raise ConfigError(
                f"KerasModel.compile(loss=...) received {len(losses)} losses for {len(self._targets)} "
                f"targets; expected one for each."
            )
        wanted = list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
        self.model = _CompiledModel(
            use_keras(self._make_model),
            (self._inputs, self._targets),
            [_found("loss", entry) for entry in losses],
            {_name_of(entry): _found("metrics", entry) for entry in wanted},
            optimizer,
        )

    def fit(self, dataflow: Any, validation_data: Any = None, **config: Any) -> SingleCostTrainer:
        """Trains until the last epoch.

        Args:
            dataflow: datapoints of inputs and targets, in batches; see `TrainConfig`.
            validation_data: batches that the cost and the metrics are measured on after each epoch.
            config: further arguments of `TrainConfig`, such as `max_epoch`, `callbacks` and `resume`.

        Returns:
            The trainer, whose `monitors` know all statistics.

        Raises:
            ConfigError: see `TrainConfig`.
            TrainerStateError: the model has not been compiled.
            TypeError: an argument is one of Keras's own `fit`; the message has what is written instead.
        """
        if not isinstance(self.model, _CompiledModel):
            raise TrainerStateError("KerasModel.fit() comes after compile(optimizer, loss).")
        _check_names(config)
        trainer: SingleCostTrainer = self._trainer(TrainConfig(model=self.model, dataflow=dataflow, **config))
        if validation_data is not None:
            trainer.register_callback(InferenceRunner(validation_data, ScalarStats(self.model.statistics)))
        trainer.train()
        return trainer


def _check_names(config: Mapping[str, Any]) -> None:
    for name in config:
        if name in _WRITTEN_INSTEAD:
            raise TypeError(f"KerasModel.fit() received {name}=; write {_WRITTEN_INSTEAD[name]} instead.")


@final
class _CompiledModel(ModelDesc):
    """What `compile` has made of a Keras model."""

    def __init__(
        self,
        network: KerasFunction,
        specs: tuple[list[tf.TensorSpec], list[tf.TensorSpec]],
        losses: list[_Compared],
        metrics: dict[str, _Compared],
        optimizer: MakeOptimizer | tf.train.Optimizer,
    ) -> None:
        self._network, self._losses, self._metrics = network, losses, metrics
        self._input_specs, self._target_specs = specs
        self._optimizer = optimizer
        self.statistics = ["cost", *metrics]

    def inputs(self) -> list[tf.TensorSpec]:
        return [*self._input_specs, *self._target_specs]

    def build_graph(self, *tensors: tf.Tensor) -> tf.Tensor:
        count = len(self._input_specs)
        inputs, targets = tensors[:count], tensors[count:]
        outputs = self._network(inputs[0] if count == 1 else list(inputs))
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        if len(outputs) != len(targets):
            raise ModelError(
                f"The Keras model has {len(outputs)} outputs, and KerasModel(targets=...) "
                f"{len(targets)} specs; expected one for each output."
            )
        for place, output in enumerate(outputs):
            tf.identity(output, name="output" if len(outputs) == 1 else f"output{place}")
        means = [tf.reduce_mean(loss(*pair)) for loss, *pair in zip(self._losses, targets, outputs)]
        cost = tf.add_n([*means, regularize_cost_from_collection()], name="cost")
        measured = [
            tf.reduce_mean(tf.cast(metric(targets[0], outputs[0]), tf.float32), name=name)
            for name, metric in self._metrics.items()
        ]
        if self.training:
            add_moving_summary(cost, *measured)
        return cost

    def optimizer(self) -> tf.train.Optimizer:
        return make_optimizer(self._optimizer, ConfigError)


def _name_of(wanted: Any) -> str:
    return wanted if isinstance(wanted, str) else getattr(wanted, "__name__", type(wanted).__name__)


def _found(argument: str, wanted: Any) -> _Compared:
    """Returns the function of targets and outputs that is wanted."""
    import keras  # half a second, and for those alone who have Keras models

    if argument == "metrics" and wanted in _ACCURACIES:
        return _accuracy
    found = wanted
    if isinstance(wanted, str):
        found = getattr(keras.metrics, wanted, None) or _loss_of(wanted)
    if isinstance(found, keras.metrics.Metric) or inspect.isclass(found):
        raise ConfigError(
            f"KerasModel.compile({argument}=...) received {wanted!r}, which has a state; expected a function "
            f'of targets and outputs, such as "sparse_categorical_accuracy". What has a state is a callback '
            f"here, such as BinaryClassificationStats in an InferenceRunner."
        )
    if not callable(found):
        raise ConfigError(
            f"KerasModel.compile({argument}=...) received {wanted!r}; expected the name of a function in "
            f"keras.losses or keras.metrics, or a function of targets and outputs."
        )
    function: _Compared = found
    return function


def _loss_of(name: str) -> Any:
    from keras import losses

    try:
        return losses.get(name)
    except ValueError:
        return None


def _accuracy(target: Any, output: Any) -> Any:
    """Returns 1 for each right answer, by the shapes, as Keras's `compile` chooses."""
    from keras import metrics

    if output.shape[-1] == 1:
        return metrics.binary_accuracy(target, output)
    if target.shape.rank == output.shape.rank and target.shape[-1] == output.shape[-1]:
        return metrics.categorical_accuracy(target, output)
    return metrics.sparse_categorical_accuracy(target, output)
