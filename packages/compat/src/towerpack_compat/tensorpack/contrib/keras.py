"""`tensorpack.contrib.keras`: models of `tf.keras` in a training of Tensorpack."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_trainers as trainers
from towerpack_callbacks import add_moving_summary
from towerpack_layers import cached_name_scope, regularize_cost_from_collection

from ...tensorflow1 import tensorflow as first_tensorflow
from ..callbacks._inference import InferenceRunner, InferenceRunnerBase, ScalarStats
from ..callbacks._old_callback import Callback, CallbackToHook
from ..training._config import apply_default_prefetch
from ..training._cost_trainers import SimpleTrainer, SingleCostTrainer, SyncMultiGPUTrainerParameterServer
from ..training._towers import get_current_tower_context
from ..utils import logger
from ..utils.graph import backup_collection, restore_collection

__all__ = ["KerasModel", "KerasPhaseCallback", "setup_keras_trainer"]

_TOTAL = "total_loss"


def _keras() -> Any:
    return first_tensorflow().keras


class _Caller:
    """Builds a Keras model once, and calls the same model when variables are reused.

    Args:
        get_model: maps the input tensors to the model.
    """

    def __init__(self, get_model: Callable[..., Any]) -> None:
        self._get_model = get_model
        self._model: Any = None

    def __call__(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        """Returns the outputs for the inputs of a tower."""
        before = {variable.ref() for variable in tf.trainable_variables()}
        backup = backup_collection([tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.UPDATE_OPS])
        if self._model is not None and tf.get_variable_scope().reuse:
            model = self._model
            outputs = model.call(*inputs)
        else:
            with _without_tower_scope() if self._model is None else contextlib.nullcontext():
                model = self._get_model(*inputs)
            assert isinstance(model, _keras().Model), f"get_model must return a Keras model, not {model!r}"
            self._model = self._model or model
            outputs = model.outputs
        self._collect(model, before, backup)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    @staticmethod
    def _collect(model: Any, before: set[Any], backup: dict[str, list[Any]]) -> None:
        """Keeps only the model's weights and updates in the collections; Keras adds others."""
        added = {variable.ref() for variable in tf.trainable_variables()} - before
        restore_collection(backup)
        for weight in model.weights:
            if weight.ref() in added:
                tf.add_to_collection(tf.GraphKeys.TRAINABLE_VARIABLES, weight)
        for op in model.updates:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, op)


def _without_tower_scope() -> Any:
    """Leaves the name scope of the first tower; Keras would add it to the names of variables."""
    is_inside = tf.get_default_graph().get_name_scope() == "tower0"
    return tf.name_scope("/") if is_inside else contextlib.nullcontext()


class KerasPhaseCallback(Callback):
    """Feeds Keras's learning phase: `isTrain` in training steps, 0 in every `InferenceRunner`.

    Args:
        isTrain: the phase.
    """

    def __init__(self, isTrain: bool) -> None:
        assert isinstance(isTrain, bool), isTrain
        self._is_train = isTrain
        self._phase = _keras().backend.learning_phase()

    def _setup_graph(self) -> None:
        logger.info("Using Keras learning phase %s in the graph!", self._phase.name)
        trainer: Any = self.trainer
        for callback in trainer.callbacks:
            if isinstance(callback, InferenceRunnerBase):
                callback.register_hook(CallbackToHook(KerasPhaseCallback(False)))

    def _before_run(self, ctx: Any) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(fetches=[], feed_dict={self._phase: self._is_train})


def setup_keras_trainer(
    trainer: SingleCostTrainer,
    get_model: Callable[..., Any],
    input_signature: Sequence[tf.TensorSpec],
    target_signature: Sequence[tf.TensorSpec],
    input: Any,
    optimizer: tf.train.Optimizer,
    loss: list[str],
    metrics: list[str],
) -> None:
    """Builds the graph of a trainer around a Keras model.

    Args:
        trainer: the trainer.
        get_model: maps the input tensors to the model.
        input_signature: the inputs.
        target_signature: the targets, one for each output.
        input: an `InputSource`.
        optimizer: the optimizer.
        loss: the name of a loss for each output.
        metrics: names of metrics, one for each output.
    """
    assert isinstance(optimizer, tf.train.Optimizer), optimizer
    assert isinstance(loss, list) and loss, "No loss was given!"
    assert isinstance(metrics, list), metrics
    call, count = _Caller(get_model), len(input_signature)

    def cost(*tensors: tf.Tensor) -> tf.Tensor:
        outputs, targets = call(*tensors[:count]), tensors[count:]
        assert len(outputs) == len(targets) == len(loss), [*map(len, (outputs, targets, loss))]
        losses = [
            _mean("keras_loss", _keras().losses, name, target, output)
            for name, target, output in zip(loss, targets, outputs)
        ]
        penalty = regularize_cost_from_collection()
        parts = losses if penalty is None else [*losses, penalty]
        total = tf.add_n(parts, name=_TOTAL)
        add_moving_summary(total, *parts)
        context = get_current_tower_context()
        assert context is not None
        if metrics and (context.is_main_training_tower or not context.is_training):
            triples = zip(metrics, targets, outputs)
            add_moving_summary(*(_mean("keras_metric", _keras().metrics, *triple) for triple in triples))
        return total

    trainer.setup_graph([*input_signature, *target_signature], input, cost, lambda: optimizer)
    phase = _keras().backend.learning_phase()
    if isinstance(phase, tf.Tensor) and phase.consumers():
        trainer.register_callback(KerasPhaseCallback(True))


def _mean(scope: str, functions: Any, name: str, target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
    with cached_name_scope(scope, top_level=False):
        values = functions.get(name)(target, output)
    mean = tf.reduce_mean(values, name=name)
    assert mean.op.name.rpartition("/")[2] == name, f"The name {name} is taken: {mean.op.name}"
    return mean


class KerasModel:
    """Trains a Keras model with Tensorpack's trainers.

    Args:
        get_model: maps the input tensors to a `tf.keras.Model`.
        input_signature: the inputs.
        target_signature: the targets.
        input: the data, an `InputSource` or a DataFlow.
        trainer: the trainer; None: a trainer for all GPUs.
    """

    def __init__(
        self,
        get_model: Callable[..., Any],
        input_signature: Sequence[tf.TensorSpec] = (),
        target_signature: Sequence[tf.TensorSpec] = (),
        input: Any = None,
        trainer: SingleCostTrainer | None = None,
    ) -> None:
        assert callable(get_model), get_model
        assert input is not None, "Argument 'input' is required!"
        self.get_model = get_model
        self.input_signature, self.target_signature = list(input_signature), list(target_signature)
        gpus = trainers.get_num_gpu()
        default = SimpleTrainer if gpus <= 1 else lambda: SyncMultiGPUTrainerParameterServer(gpus)
        self.trainer = default() if trainer is None else trainer
        self.input = apply_default_prefetch(input, self.trainer)

    def compile(
        self, optimizer: tf.train.Optimizer, loss: str | list[str], metrics: str | list[str] | None = None
    ) -> None:
        """Builds the graph.

        Args:
            optimizer: the optimizer.
            loss: the name of a loss, or a list of names.
            metrics: the name of a metric, or a list of names.
        """
        losses = [loss] if isinstance(loss, str) else loss
        measured = [metrics] if isinstance(metrics, str) else metrics or []
        self._stats_to_inference = [*losses, *measured, _TOTAL]
        inputs = (self.input_signature, self.target_signature, self.input)
        setup_keras_trainer(self.trainer, self.get_model, *inputs, optimizer, losses, measured)

    def fit(self, validation_data: Any = None, **kwargs: Any) -> None:
        """Trains.

        Args:
            validation_data: a DataFlow or `InputSource` for an `InferenceRunner`, the first callback.
            kwargs: further arguments of `train_with_defaults`.
        """
        callbacks = kwargs.pop("callbacks", [])
        if validation_data is not None:
            callbacks.insert(0, InferenceRunner(validation_data, ScalarStats(self._stats_to_inference)))
        self.trainer.train_with_defaults(callbacks=callbacks, **kwargs)
