"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import tensorflow.compat.v1 as tf

from ..config import RunPlan
from ..config._config_in_parts import ConfigInParts
from ..config._resolve_config import resolve_config
from ..config._train_config import TrainConfig
from ..towers._function_model import FunctionModel
from ._builder_trainer import BuilderTrainer

__all__ = ["NoOpTrainer", "QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer"]


class SingleCostTrainer(BuilderTrainer):
    """Makes the training step from `ModelDesc.build_graph` and the optimizer.

    See `BuilderTrainer` for the hooks of subclasses. A trainer that is made without a configuration gets its
    model from `setup_graph` and the other arguments from `train`; before `setup_graph` it has no other
    attribute.

    Example:
        ```python
        trainer = SyncMultiGPUTrainer(devices=2)
        trainer.setup_graph(
            [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")], flow,
            cost_fn, lambda: tf.train.AdamOptimizer(1e-3),
        )
        trainer.train(callbacks=[ModelSaver()], max_epoch=10)
        ```
    """

    def _start(self, config: TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        self._parts = ConfigInParts(type(self).__name__, whole=config is not None or bool(arguments))
        if not self._parts.waiting:
            super()._start(config, arguments)

    if not TYPE_CHECKING:  # type checkers would otherwise accept any attribute of a trainer

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_parts") and self._parts.waiting:
                raise AttributeError(f"{type(self).__name__} has no {name!r} before setup_graph(...).")
            return super().__getattribute__(name)  # raises the original error

    def setup_graph(
        self,
        signature: Sequence[tf.TensorSpec],
        input: Any,
        cost_fn: Callable[..., tf.Tensor],
        optimizer_fn: Callable[[], tf.train.Optimizer],
        **arguments: Any,
    ) -> None:
        """Builds the graph of a trainer that was made without a configuration. Call it once.

        A resumed run keeps its seed, and the graph depends on the seed. Therefore pass `resume` and `log_dir`
        here; or pass `seed` here in all runs, and `resume` to `train`.

        Args:
            signature: shape, dtype and name of each input; see `ModelDesc.inputs`.
            input: an `InputSource` or a DataFlow.
            cost_fn: takes one tensor per input, adds a replica of the model to the graph, and returns the
                cost, a scalar; see `ModelDesc.build_graph`.
            optimizer_fn: makes the optimizer; called once, inside the graph.
            arguments: further arguments of a `TrainConfig`. `seed` and `xla` belong here, not in `train`.

        Raises:
            TrainerStateError: it was called before, or the trainer was made with a configuration.
            ConfigError: an argument of the `TrainConfig` is wrong, or does not suit this trainer.
            ModelError: `signature` is not a list of `tf.TensorSpec`, or the cost is not a scalar.
            TypeError: a function is not callable, or does not return an optimizer.
        """
        self._parts.check_may_begin()
        with self.processes.failing_together(self.coord):
            model = FunctionModel(signature, cost_fn, optimizer_fn)
            config = self._parts.begin(model, input, arguments)
            config = resolve_config(type(self).__name__, config, {}, self.is_chief)
            self._follow(RunPlan.of_graph(config, self.processes))
            self._build()

    def train(self, **arguments: Any) -> None:
        """Trains the model; see `Trainer.train`.

        Args:
            arguments: after `setup_graph`, those of a `TrainConfig` except for model and data; otherwise
                none.

        Raises:
            TrainerStateError: there is nothing to train yet; or see `Trainer.train`.
            ConfigError: the trainer was made with a configuration, or the arguments need a different graph;
                or see `Trainer.train`.
        """
        self._complete_config(arguments)
        super().train()

    def explain(self, **arguments: Any) -> str:
        """Describes the training; see `Trainer.explain`.

        Args:
            arguments: as for `train`, which then takes none.
        """
        self._complete_config(arguments)
        return super().explain()

    def _complete_config(self, arguments: Mapping[str, Any]) -> None:
        self._parts.check_has_begun()
        with self.processes.failing_together(self.coord):
            config, built = self._parts.complete(arguments, self.seed), self.seed
            if config is not None:
                config = resolve_config(type(self).__name__, config, {}, self.is_chief)
                self._follow(RunPlan.of(config, self.processes))
                self._parts.check_seed(built, self.seed)

    def _setup(self) -> None:
        super()._setup()
        cost = self.tower_func.training[0].output if self.tower_func.training else None
        self._main_cost = cost if isinstance(cost, tf.Tensor) else None


@final
class SimpleTrainer(SingleCostTrainer):
    """Trains on one device.

    Example:
        ```python
        SimpleTrainer(TrainConfig(model=LeNet(), dataflow=flow, max_epoch=10)).train()
        ```
    """


@final
class NoOpTrainer(SingleCostTrainer):
    """Builds the model, then runs epochs of empty steps, in which only the callbacks act.

    Variables keep their initial or restored values. Steps are counted. No datapoint is taken unless a
    callback fetches a tensor that depends on one, as `MovingAverageSummary`, one of the default callbacks,
    does for a model that calls `add_moving_summary`.

    Example: evaluate a trained model with the callbacks of its training.
        ```python
        NoOpTrainer(TrainConfig(
            model=LeNet(), dataflow=train_flow, session_init=SmartInit("train_log/lenet/model-9000"),
            callbacks=[InferenceRunner(test_flow, [ScalarStats("accuracy")])], extra_callbacks=[],
            steps_per_epoch=1, max_epoch=1,
        )).train()
        ```
    """

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        return tf.no_op(name="train_op")

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return ()  # no step waits for them, and timing them would take datapoints


# Tensorpack's name for the trainer with prefetching; here, every trainer prefetches.
QueueInputTrainer = SimpleTrainer
