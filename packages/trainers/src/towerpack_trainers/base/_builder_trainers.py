"""Trainers that place their training towers with a builder: those of one cost, and the base of all others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_inputsource import InputSource

from .._errors import ConfigError, TrainerStateError
from ..config import RunPlan, TrainConfig, resolve_config
from ..restore import find_starting_point
from ..towers._builder import Builder, SingleDeviceBuilder
from ..towers._model_desc import FunctionModel
from ..towers._tower import declare_cost
from ._tower_trainer import TowerTrainer

__all__ = ["BuilderTrainer", "NoOpTrainer", "QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer"]

_log = logging.getLogger("towerpack_trainers")

_OF_THE_MODEL = ("model", "dataflow", "data", "optimizer")


class BuilderTrainer(TowerTrainer):
    """Makes the training step with a builder: one tower, or one on each of several devices.

    A subclass for several devices sets `devices` before this class's `__init__`. Every tower takes its own
    datapoint from the input; no datapoint is split.

    In addition to the hooks of `TowerTrainer`, a subclass may override these two, called within `__init__`:

    - `_make_builder()` returns the builder that places the towers; by default, on one device. It may use the
      seed of this process, `processes.local_seed(seed)`, and the exchange `processes.gradient_exchange`.
    - `_build_train_op()` builds the training towers and returns the op of one step, by default with that
      builder. It may use `tower_func`, `source`, `training_context` and `config.make_optimizer`.

    Attributes:
        builder: the builder that placed the towers; None if `_build_train_op` did not use one.
    """

    builder: Builder | None = None

    def _setup(self) -> None:
        super()._setup()
        towers = len(self.devices)
        if towers > 1:
            self._check_towers_can_share_input(towers)
        self.train_op = self._build_train_op()
        if towers > 1:
            message = "%d towers, one batch for each: one step trains on %d datapoints."
            _log.info(message, towers, towers * self._datapoints_per_step)

    def _check_towers_can_share_input(self, towers: int) -> None:
        if not self.source.feed_free:
            raise ConfigError(
                f"{type(self.source).__name__} feeds one datapoint in each run, so all {towers} towers would "
                "train on the same one. Use QueueInput or another source without feeding; a DataFlow given "
                "as dataflow= gets one."
            )

    def _make_builder(self) -> Builder:
        return SingleDeviceBuilder(self.processes.local_seed(self.seed), self.processes.gradient_exchange)

    def _build_train_op(self) -> tf.Operation:
        """Builds the training towers and returns the op of one step."""
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)

    def _own_callbacks(self) -> list[Callback]:
        callbacks = [] if self.builder is None else self.builder.callbacks()
        return [*super()._own_callbacks(), *callbacks]


class SingleCostTrainer(BuilderTrainer):
    """Makes the training step from `ModelDesc.build_graph` and the optimizer.

    See `BuilderTrainer` for the hooks of subclasses. A trainer that is made without a configuration gets its
    model from `setup_graph` and the other arguments from `train`.

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

    _of_graph: TrainConfig | None = None  # the arguments of setup_graph
    _is_complete = False  # whether the configuration has all arguments

    def _start(self, config: TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        if config is not None or arguments:
            self._is_complete = True
            super()._start(config, arguments)

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
        name = type(self).__name__
        if self._of_graph is not None:
            raise TrainerStateError(
                f"{name}.setup_graph was called before; one trainer is one training. Make a new one."
            )
        if self._is_complete:
            raise TrainerStateError(
                f"{name} was made with a TrainConfig, which has its model. Make it without one, as {name}(), "
                "and then call setup_graph; or omit setup_graph."
            )
        with self.processes.failing_together(self.coord):
            model = FunctionModel(signature, cost_fn, optimizer_fn)
            self._refuse(arguments, "Use its arguments signature, input and the functions.")
            if input is None:
                raise ConfigError(f"{name}.setup_graph(input=None): expected a DataFlow or InputSource.")
            source = {"data" if isinstance(input, InputSource) else "dataflow": input}
            given = TrainConfig(**{**arguments, **source, "model": model})
            config, seed = resolve_config(name, given, {}, self.is_chief), given.seed
            if config.resume is not None:  # a resumed run keeps its seed
                seed = find_starting_point(config.resume, config.log_dir).choose_seed(seed)
            no_files: dict[str, Any] = {"log_dir": None, "monitors": [], "trace": None, "resume": None}
            self._follow(RunPlan(attrs.evolve(config, seed=seed, **no_files), self.processes))
            self._of_graph = given
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
        name, first = type(self).__name__, self._of_graph
        if first is None and not self._is_complete:
            raise TrainerStateError(
                f"{name} was made without a TrainConfig, and has nothing to train yet. Call "
                "setup_graph(signature, input, cost_fn, optimizer_fn) first, or make it with a TrainConfig."
            )
        with self.processes.failing_together(self.coord):
            if self._is_complete:
                self._refuse_late(", ".join(arguments))
                return
            assert first is not None
            self._refuse(arguments, "Pass them to setup_graph, as signature, input and functions.")
            config, built = attrs.evolve(first, **arguments), self.seed
            self._check_same_graph(first, config)
            self._is_complete = True
            config = resolve_config(name, attrs.evolve(config, seed=built), {}, self.is_chief)
            self._follow(RunPlan(config, self.processes))
            if self.seed != built:
                raise ConfigError(
                    f"{name} has built its graph with seed {built}, but the run to resume has seed "
                    f"{self.seed}. Call setup_graph(..., seed={self.seed}), or pass resume= and log_dir= to "
                    "setup_graph."
                )

    def _refuse_late(self, names: str) -> None:
        name = type(self).__name__
        if names and self._of_graph is None:
            raise ConfigError(
                f"{name}.train received {names}, but it was made with a TrainConfig. Pass all arguments to "
                "the TrainConfig: attrs.evolve(config, ...) makes a changed copy."
            )
        if names:
            raise TrainerStateError(
                f"{name} received {names} after its training was set up by an earlier explain() or train(). "
                "Pass them there; a train() after explain(...) takes no arguments."
            )

    def _refuse(self, arguments: Mapping[str, Any], advice: str) -> None:
        refused = [name for name in _OF_THE_MODEL if name in arguments]
        if refused:
            raise ConfigError(f"{type(self).__name__} does not take {', '.join(refused)} here. {advice}")

    def _check_same_graph(self, first: TrainConfig, config: TrainConfig) -> None:
        changed = [name for name in ("seed", "xla") if getattr(config, name) != getattr(first, name)]
        if changed and not (changed == ["seed"] and config.seed == self.seed):
            raise ConfigError(
                f"The graph of {type(self).__name__} is already built, with another {' and '.join(changed)}. "
                f"Pass {' and '.join(f'{name}=' for name in changed)} to setup_graph."
            )
        resumed = _what_is_resumed(config)
        if first.seed is None and resumed is not None and resumed != _what_is_resumed(first):
            raise ConfigError(
                f"{type(self).__name__} has built its graph with a random seed, but a resumed run keeps its "
                "original seed. Pass resume= (and log_dir=) to setup_graph, or pass seed= to setup_graph in "
                "all runs."
            )

    def _setup(self) -> None:
        super()._setup()
        cost = self.tower_func.training[0].output if self.tower_func.training else None
        self._main_cost = cost if isinstance(cost, tf.Tensor) else None

    def _build_train_op(self) -> tf.Operation:
        op = super()._build_train_op()
        if (cost := self.tower_func.training[0].cost) is not None:
            declare_cost(cost)
        return op


def _what_is_resumed(config: TrainConfig) -> Any:
    return (config.resume, config.log_dir) if config.resume == "auto" else config.resume


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
        self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        return tf.no_op(name="train_op")

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return ()  # no step waits for them, and timing them would take datapoints


# Tensorpack's name for the trainer with prefetching; here, every trainer prefetches.
QueueInputTrainer = SimpleTrainer
