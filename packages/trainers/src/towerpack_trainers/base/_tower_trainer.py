"""Trainers of models described by a tower function."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceTower
from towerpack_inputsource import FeedInput, InputSource, input_for
from towerpack_layers import TowerContext

from .._errors import ConfigError, TrainerStateError
from ..config import FlowPositions
from ..optimize import compile_training_towers, leave_fusion_to_xla
from ..reports import InputOverhead, StepOnHeldBatch, explain_step
from ..session import SingleProcess, seed_data
from ..towers._builder import CrossTowerSum
from ..towers._devices import are_gpus, check_devices
from ..towers._evaluation_tower import EvaluationTower, ParallelEvaluation, round_robin
from ..towers._model_desc import ModelDesc
from ..towers._predictor import PredictionTowers, Predictor
from ..towers._tower import TowerFunc, no_moving_summaries
from ._trainer import Trainer

__all__ = ["TowerTrainer"]


class TowerTrainer(Trainer):
    """Has a model and an input, and can add replicas for evaluation and prediction.

    A subclass builds its training towers in `_setup`, after this class's own `_setup`, with `tower_func`,
    `source` and `training_context`. In addition to the hooks of `Trainer`, it may override these:

    - `_make_source(dataflow)` chooses the `InputSource` that brings a DataFlow into the graph;
    - `_tower_function()` returns the function that builds a replica.

    Raises:
        ConfigError: (from the constructor) the configuration has no model.
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
        if not isinstance(source, InputSource):
            source = FeedInput(source, infinite=False)
        with self._evaluation_scope():
            source.setup(self.tower_func.specs)
            given = source.get_input_tensors()
            # Placeholders belong to the whole graph; their substitutes can be fed for each tower separately.
            inputs = [tf.identity(tensor) for tensor in given] if own_feeds else given
            tower = self.tower_func.build(TowerContext(name, is_training=False, reuse=True), inputs)
            evaluation = EvaluationTower(tower, source, dict(zip((t.ref() for t in given), inputs)))
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
