"""Trainers of models that are described by a tower function."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceTower
from towerpack_inputsource import FeedInput, InputSource, input_for
from towerpack_layers import TowerContext

from .._errors import ConfigError, TrainerStateError
from ..config._flow_positions import FlowPositions
from ..optimize import compile_training_towers, leave_fusion_to_xla
from ..predict._prediction_towers import PredictionTowers
from ..reports import Headspace, StepOnData, explain_step
from ..session import SingleProcess, seed_data
from ..towers._cross_tower_sum import CrossTowerSum
from ..towers._devices import are_gpus, check_devices
from ..towers._evaluation_tower import EvaluationTower, ParallelEvaluation, round_robin
from ..towers._model_desc import ModelDesc
from ..towers._predictor import Predictor
from ..towers._tower import TowerFunc, no_moving_summaries
from ._trainer import Trainer

__all__ = ["TowerTrainer"]


class TowerTrainer(Trainer):
    """Has a model and an input, so it can add more replicas: for evaluation, for prediction.

    Subclasses build their training towers in `_setup`, through `tower_func`, `source` and `training_context`,
    after this class's own `_setup`. Beside the hooks of `Trainer` they may override

    - `_make_source(dataflow)` chooses the `InputSource` that brings a DataFlow into the graph;
    - `_tower_function()` returns the function that builds a replica.

    Raises:
        ConfigError: (when made) the configuration has no model.
    """

    def _setup(self) -> None:
        build = self._tower_function()
        self.tower_func = TowerFunc(
            compile_training_towers(build) if self.config.xla else build, self.model.inputs()
        )
        self._step_variable = tf.train.get_or_create_global_step()
        self.evaluation_towers: list[EvaluationTower] = []
        self._prediction = PredictionTowers(self.tower_func, self.graph, self._evaluation_scope)
        if self.source is None:
            if self.config.dataflow is None:
                raise ConfigError(
                    f"{type(self).__name__} makes no data itself: give dataflow= or data= to the TrainConfig."
                )
            self.source = self._make_source(self.config.dataflow)
            seed_data(self.source, self.seed, self.processes)
        self._positions = FlowPositions()
        self._positions.note(self.config.dataflow)
        self.source.setup(self.tower_func.specs)

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
                f"{type(self).__name__} needs TrainConfig(model=...). Trainers of one cost, made without any "
                "argument of a TrainConfig, take functions instead, by setup_graph."
            )
        return self.config.model

    def explain_step(self, global_step: int) -> list[Any]:
        """Computes where the datapoints of one step come from: a trace for each tower, in the flow's order.

        Nothing was logged. It holds for a training that began with epoch 0 of its flow, however often it was
        resumed, and in a process of several for the data of this one. Call it before or after `train`.

        Args:
            global_step: which step, from 1, as monitors and checkpoints count them.

        Raises:
            ConfigError: there is no such step, or the configuration's flow has no `trace`.
            TypeError: the flow is a stream, or does not know its length.
        """
        self._prepare()
        takes = self._train_op.takes * max(len(self.tower_func.training), 1)
        return explain_step(self.config.dataflow, global_step, takes)

    def headspace(self, steps: int = 100) -> Headspace:
        """Measures what the training would reach if data cost nothing; call it before `train`.

        It times steps on the training's data, then as many on one batch of them that is held, in sessions of
        their own: afterwards, variables, counters, callbacks and the position in the data are what they were.
        Callbacks do not run, and each step is a session call. The step takes the held batch as a feed, which
        costs nothing on a CPU, and a copy to the device elsewhere.

        Args:
            steps: how many to time of each; more than the workers of the flow have made ahead.

        Returns:
            Both rates, and the share of the time that data takes.

        Raises:
            ConfigError: `steps` is no whole number above 0; the data ends before, is live, or is made by the
                trainer; there is no input; there are other processes; or a step is not one op.
            TrainerStateError: it was called during or after `train`.
        """
        self._session.check_unused(self.graph)
        self._check_one_process_on_data()
        self._prepare()
        op, inputs = self._only_op(), self._tower_inputs()
        if self.source is None or not inputs:
            return super().headspace(steps)
        if op is None or self._train_op.lead is not None:
            raise ConfigError(
                f"{type(self).__name__}.headspace: a step of this trainer is not one op, so none can be run "
                "on a batch that is held. Ask a SimpleTrainer of the same data, whose steps are."
            )
        step = StepOnData(self.graph, self._session_config(), op, inputs, self.source)
        try:
            return step.headspace(steps)
        finally:
            self._positions.put_back()

    def _check_one_process_on_data(self) -> None:
        name, model = type(self).__name__, self.config.model
        if model is not None and model.data_from_trainer:
            raise ConfigError(
                f"{name}.headspace: an agent makes its data by acting, which no batch that is held replaces. "
                "What acting costs is printed after each epoch, and recorded by the monitors: the shares of "
                "the time that environments, policy and learner take."
            )
        if type(self.processes) is not SingleProcess:
            raise ConfigError(
                f"{name}.headspace: a step waits for the other processes, and so for their data. Run it in "
                "one process, in a SimpleTrainer on the part of the data that one process reads."
            )

    def _make_source(self, dataflow: Any) -> InputSource:
        # TensorFlow puts a single tower on the first GPU, if there is one.
        on_gpu = are_gpus(self.devices) if self.devices else bool(tf.config.list_physical_devices("GPU"))
        return input_for(dataflow, on_gpu=on_gpu)

    def setup_graph(self, *arguments: Any, **named: Any) -> None:
        """Refuses to build a model of one cost, which trainers of this kind do not train.

        Raises:
            TrainerStateError: always; `SingleCostTrainer` overrides it.
        """
        raise TrainerStateError(
            f"{type(self).__name__}.setup_graph: it trains no single cost, which is what setup_graph takes. "
            "Describe the model by a class, as TrainConfig(model=...); or use a trainer of one cost, such as "
            "SimpleTrainer."
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
        # Several towers are connected by what builds them.
        return CrossTowerSum(1, over_processes).of(0, "") if over_processes and num_towers == 1 else None

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica over a DataFlow or an `InputSource` that ends after one pass.

        With several devices, adds one on each, named `<name>0` and so on, which take turns with the
        datapoints of a DataFlow.

        Raises:
            ConfigError: the source never ends, several replicas shall share an `InputSource`, or a device is
                not there.
        """
        if source is self.config.dataflow:
            # A flow tells the position of its youngest iterator, and this one's shall stay the training's.
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
                "Give the DataFlow itself."
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
            # Placeholders belong to all of the graph; what stands for them can be fed for each tower alone.
            inputs = [tf.identity(tensor) for tensor in given] if own_feeds else given
            tower = self.tower_func.build(TowerContext(name, is_training=False, reuse=True), inputs)
            evaluation = EvaluationTower(tower, source, dict(zip((t.ref() for t in given), inputs)))
        self.evaluation_towers.append(evaluation)
        return evaluation

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int | str | None = None
    ) -> Predictor:
        """Makes a function from input arrays to output arrays, of the model as it evaluates.

        Call it before training begins, or in a callback's `_setup_graph`: the first predictor on a device
        adds a replica, which the later ones there share. The same tensors have the same predictor.

        Args:
            input_names: names of `inputs()` or of tensors, in the order of the function's arguments.
            output_names: names of tensors the model makes, or of variables.
            device: where the replica is: the number of a GPU, -1 for the CPU, or a name such as "/gpu:1";
                None: where TensorFlow puts it.

        Raises:
            TrainerStateError: the graph is final already, and has no replica on that device.
            ConfigError: the device is none, or is not there.
        """
        return self._prediction.get_predictor(lambda: self.sess, input_names, output_names, device)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name: inputs, then those of the whole graph, then of the first tower."""
        towers = self.tower_func.training
        return towers[0].get_tensors(names, anywhere=True) if towers else super().get_tensors(names)

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        towers = self.tower_func.training
        return list(towers[0].inputs.values()) if towers else ()

    def _tower_inputs(self) -> Sequence[tf.Tensor]:
        return [tensor for tower in self.tower_func.training for tensor in tower.inputs.values()]

    def _own_callbacks(self) -> list[Callback]:
        # Flows are put back when nothing reads them any more.
        return [*super()._own_callbacks(), _EvaluationInputs(self.evaluation_towers), self._positions]

    @contextlib.contextmanager
    def _evaluation_scope(self) -> Iterator[None]:
        # The caller may be in the name scope of a callback; names of towers start at the root.
        with self.graph.as_default(), tf.name_scope(None), no_moving_summaries(self.graph):
            yield


def _how_to_end(source: Any) -> str:
    if isinstance(source, InputSource) and source.infinite:
        return f"Write {type(source).__name__}(..., infinite=False), or give the DataFlow itself."
    return "Write FixedSizeData(flow, size), or give a flow without its endless repetition."


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
