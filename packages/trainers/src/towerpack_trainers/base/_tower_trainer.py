"""Trainers of models described by a tower function."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceTower
from towerpack_inputsource import FeedInput, InputSource, input_for
from towerpack_layers import TowerContext

from .._errors import ConfigError, TrainerStateError
from ..config import FlowPositions, RunPlan, TrainConfig, resolve_config
from ..optimize import compile_training_towers, leave_fusion_to_xla
from ..reports._input_overhead import InputOverhead, StepOnHeldBatch
from ..reports._input_report import explain_step
from ..restore._run_state import find_starting_point
from ..session._process_strategy import SingleProcess, seed_data
from ..towers._batch_calls import READ_AHEAD
from ..towers._builder import Builder, CrossTowerSum, SingleDeviceBuilder
from ..towers._devices import are_gpus, check_devices
from ..towers._evaluation_tower import EvaluationTower, ParallelEvaluation, round_robin
from ..towers._model_desc import FunctionModel, ModelDesc
from ..towers._predictor import PredictionTowers, Predictor
from ..towers._tower import TowerFunc, declare_cost, no_moving_summaries
from ._trainer import Trainer

__all__ = [
    "BuilderTrainer",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SingleCostTrainer",
    "TowerTrainer",
]


class TowerTrainer(Trainer):
    """Has a model and an input, and can add replicas for evaluation and prediction.

    A subclass builds its training towers in `_setup`, after this class's own `_setup`, with `tower_func`,
    `source` and `training_context`. In addition to the hooks of `Trainer`, it may override these:

    - `_make_source(dataflow)` chooses the `InputSource` that brings a DataFlow into the graph;
    - `_tower_function()` returns the function that builds a replica.

    Raises:
        ConfigError: (from the constructor) the configuration has no model.

    Example:
        >>> class ConstantCost(TowerTrainer):
        ...     def _setup(self):
        ...         super()._setup()
        ...         with self.training_context():
        ...             cost = self.tower_func(*self.source.get_input_tensors())
        ...         self.train_op = self.config.make_optimizer().minimize(cost)
    """

    source: InputSource  # `_setup` makes it from the flow of a configuration that has no source
    _tower_func: TowerFunc | None = None

    def _setup(self) -> None:
        build = self._tower_function()
        self.tower_func = TowerFunc(
            compile_training_towers(build) if self.config.xla else build, self.model.inputs()
        )
        self._step_variable = tf.train.get_or_create_global_step()
        self.evaluation_towers: list[EvaluationTower] = []
        if self.source is None:
            if self.config.dataflow is None:
                raise ConfigError(
                    f"{type(self).__name__} has no data: give dataflow= or data= to the TrainConfig."
                )
            self.source = self._make_source(self.config.dataflow)
            seed_data(self.source, self.seed, self.processes)
        self._positions = FlowPositions()
        self._positions.note(self.config.dataflow)
        self.source.setup(self.tower_func.specs)

    @property
    def tower_func(self) -> TowerFunc:
        """Builds a replica of the model."""
        if self._tower_func is None:
            raise AttributeError(f"{type(self).__name__} has no 'tower_func' before setup_graph(...).")
        return self._tower_func

    @tower_func.setter
    def tower_func(self, function: TowerFunc) -> None:
        self._tower_func = function

    @functools.cached_property
    def _prediction(self) -> PredictionTowers:
        return PredictionTowers(self.tower_func, self.graph, self._evaluation_scope)

    def _tower_function(self) -> Callable[..., Any]:
        return self.model.build_graph

    def _session_config(self) -> tf.ConfigProto:
        config = super()._session_config()
        if self.config.xla and self.config.session_config is None:
            leave_fusion_to_xla(config)
        return config

    @property
    def model(self) -> ModelDesc:
        """The model to train."""
        if self.config.model is None:
            raise ConfigError(
                f"{type(self).__name__} needs TrainConfig(model=...). A single-cost trainer that is made "
                "without any argument of a TrainConfig takes functions instead, through setup_graph."
            )
        return self.config.model

    def explain_step(self, global_step: int) -> list[Any]:
        """Computes the origins of one step's datapoints: a trace for each tower, in the order of the flow.

        The traces are computed, not logged. They hold for a training that began with epoch 0 of its flow,
        regardless of the number of resumptions. In a distributed training, they describe the data of this
        process. Call it before or after `train`.

        Args:
            global_step: the step, counted from 1 as in monitors and checkpoints.

        Raises:
            ConfigError: there is no such step, or the configuration's flow has no `trace`.
            TypeError: the flow is a stream, or its length is unknown.
        """
        self._prepare()
        datapoints = self._datapoints_per_step * max(len(self.tower_func.training), 1)
        return explain_step(self.config.dataflow, global_step, datapoints)

    def measure_input_overhead(self, steps: int = 100) -> InputOverhead:
        """Measures the throughput without input time. Call it before `train`.

        It times steps on the training's data, then the same number of steps on one held batch, in separate
        sessions. Variables, counters, callbacks and the position in the data are unchanged afterwards.
        Callbacks do not run, and each step is a session call. The held batch is fed to each step, which
        costs nothing on a CPU and one copy to the device elsewhere.

        Args:
            steps: the number of steps to time in each case; use more than the workers of the flow prefetch.

        Returns:
            Both rates, and the fraction of the time spent on data.

        Raises:
            ConfigError: `steps` is not a whole number above 0; the data ends too early, is live, or is made
                by the trainer; there is no input; there are other processes; or a step is not one op.
            TrainerStateError: it was called during or after `train`.
        """
        self._check_unused()
        self._check_one_process_on_data()
        self._prepare()
        op, inputs = self._only_op(), self._tower_inputs()
        if self.source is None or not inputs:
            return super().measure_input_overhead(steps)
        if op is None or self._prologue is not None:
            raise ConfigError(
                f"{type(self).__name__}.measure_input_overhead: a step of this trainer is not one op and "
                "cannot run on a held batch. Measure with a SimpleTrainer on the same data."
            )
        step = StepOnHeldBatch(self.graph, self._session_config(), op, inputs, self.source)
        try:
            return step.measure_input_overhead(steps)
        finally:
            self._positions.put_back()

    def _check_one_process_on_data(self) -> None:
        name, model = type(self).__name__, self.config.model
        if model is not None and model.data_from_trainer:
            raise ConfigError(
                f"{name}.measure_input_overhead: an agent makes its data by acting, and a held batch "
                "cannot replace that. The fractions of time of environments, policy and learner are "
                "printed after each epoch and recorded by the monitors."
            )
        if type(self.processes) is not SingleProcess:
            raise ConfigError(
                f"{name}.measure_input_overhead: a step waits for the other processes and their data. Run "
                "it in one process, with a SimpleTrainer on the data of that process."
            )

    def _make_source(self, dataflow: Any) -> InputSource:
        # TensorFlow puts a single tower on the first GPU, if there is one.
        on_gpu = are_gpus(self.devices) if self.devices else bool(tf.config.list_physical_devices("GPU"))
        return input_for(dataflow, on_gpu=on_gpu)

    def setup_graph(self, *arguments: Any, **named: Any) -> None:
        """Refuses to build a model; only trainers of one cost have this method.

        Raises:
            TrainerStateError: always; `SingleCostTrainer` overrides it.
        """
        raise TrainerStateError(
            f"{type(self).__name__}.setup_graph: setup_graph takes a single cost, and this trainer does not "
            "train one. Describe the model as a class and pass it as TrainConfig(model=...); or use a "
            "trainer of one cost, such as SimpleTrainer."
        )

    def training_context(self, index: int = 0, num_towers: int = 1) -> TowerContext:
        """Makes the tower context of one of several training towers that share their variables."""
        return TowerContext(
            f"tower{index}" if num_towers > 1 else "",
            is_training=True,
            index=index,
            num_towers=num_towers,
            reuse=True if index else None,
            random_seed=self.processes.local_seed(self.seed),
            step=self._step_variable.read_value(),
            cross_tower_sum=self._sum_over_processes(num_towers),
        )

    def _sum_over_processes(self, num_towers: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
        over_processes = getattr(self.processes.gradient_exchange, "sum", None)
        # With several towers, the builder connects them.
        return CrossTowerSum(1, over_processes).of(0, "") if over_processes and num_towers == 1 else None

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica over a DataFlow or an `InputSource` that ends after one pass.

        With several devices, it adds one replica on each, named `<name>0` and so on; they take turns with the
        datapoints of a DataFlow.

        Raises:
            ConfigError: the source never ends, several replicas would share an `InputSource`, or a device
                does not exist.
        """
        if source is self.config.dataflow:
            # A flow reports the position of its newest iterator, which must remain that of the training.
            source = copy.copy(source)
        else:
            self._positions.note(source)
        if getattr(source, "endless", False):
            raise ConfigError(
                f"An evaluation needs an input that ends, but {source!r} repeats for ever. "
                f"{_how_to_end(source)}"
            )
        if not devices:
            return self._build_evaluation_tower(source, name)
        if isinstance(source, InputSource):
            raise ConfigError(
                f"Replicas on several devices share the datapoints of a DataFlow, but received {source!r}. "
                "Pass the DataFlow itself."
            )
        places, turns = check_devices(devices), round_robin(source, len(devices))
        towers = []
        for index, (device, turn) in enumerate(zip(places, turns)):
            with tf.device(device):
                towers.append(self._build_evaluation_tower(turn, f"{name}{index}", own_feeds=True))
        return ParallelEvaluation(towers)

    def _build_evaluation_tower(self, source: Any, name: str, own_feeds: bool = False) -> EvaluationTower:
        several = not (isinstance(source, InputSource) or own_feeds or self.loop.evaluation_batches)
        if not isinstance(source, InputSource):
            source = FeedInput(source, infinite=False, ahead=READ_AHEAD if several else 1)
        with self._evaluation_scope():
            source.setup(self.tower_func.specs)
            given = source.get_input_tensors()
            # Placeholders belong to the whole graph; their substitutes can be fed for each tower separately.
            inputs = [tf.identity(tensor) for tensor in given] if own_feeds else given
            tower = self.tower_func.build(TowerContext(name, is_training=False, reuse=True), inputs)
            fed_at = dict(zip((t.ref() for t in given), inputs))
            evaluation = EvaluationTower(tower, source, fed_at, several)
        self.evaluation_towers.append(evaluation)
        return evaluation

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int | str | None = None
    ) -> Predictor:
        """Makes a function from input arrays to output arrays, which runs the model in evaluation mode.

        Call it before training begins, or in a callback's `_setup_graph`. The first predictor on a device
        adds a replica; later predictors on that device share it. Calls with the same tensors return the same
        predictor.

        Args:
            input_names: names of `inputs()` or of tensors, in the order of the function's arguments.
            output_names: names of tensors of the model, or of variables.
            device: the device of the replica: the number of a GPU, -1 for the CPU, or a name such as
                "/gpu:1"; None lets TensorFlow choose.

        Raises:
            TrainerStateError: the graph is already final and has no replica on that device.
            ConfigError: the device is invalid or does not exist.
        """
        return self._prediction.get_predictor(lambda: self.sess, input_names, output_names, device)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name, from the inputs, then the whole graph, then the first tower."""
        towers = self.tower_func.training
        return towers[0].get_tensors(names, anywhere=True) if towers else super().get_tensors(names)

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        towers = self.tower_func.training
        return list(towers[0].inputs.values()) if towers else ()

    def _tower_inputs(self) -> Sequence[tf.Tensor]:
        return [tensor for tower in self.tower_func.training for tensor in tower.inputs.values()]

    def _own_callbacks(self) -> list[Callback]:
        # Flows are put back after all their readers have stopped.
        return [*super()._own_callbacks(), _EvaluationInputs(self.evaluation_towers), self._positions]

    @contextlib.contextmanager
    def _evaluation_scope(self) -> Iterator[None]:
        # The caller may be in a callback's name scope; names of towers start at the root.
        with self.graph.as_default(), tf.name_scope(None), no_moving_summaries(self.graph):
            yield


def _how_to_end(source: Any) -> str:
    if isinstance(source, InputSource) and source.infinite:
        return f"Write {type(source).__name__}(..., infinite=False), or pass the DataFlow itself."
    return "Write FixedSizeData(flow, size), or pass a flow without endless repetition."


@final
class _EvaluationInputs(Callback):
    """Starts and stops the inputs of evaluation towers with the session."""

    chief_only = False

    def __init__(self, towers: list[EvaluationTower]) -> None:
        self._towers = towers

    def _before_train(self) -> None:
        for tower in self._towers:
            tower.start(self.trainer.sess, self.trainer.coord)

    def _after_train(self) -> None:
        for tower in self._towers:
            tower.stop()


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

    Example:
        >>> from towerpack_trainers import SingleDeviceBuilder
        >>> class OneTower(BuilderTrainer):
        ...     def _make_builder(self):
        ...         return SingleDeviceBuilder(seed=self.processes.local_seed(self.config.seed))
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
