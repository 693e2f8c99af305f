"""Trainers without constructor arguments: they use the default graph, and `train` takes all settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_trainers as trainers
from towerpack_callbacks import Callbacks, HookToCallback, LoopState, Monitors
from towerpack_trainers.config import RunPlan

from ..._dry_run import limits
from ..._errors import NoCounterpartError, page
from ..callbacks._json_monitors import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from ..callbacks._old_callback import Callback, averages
from ..input_source import InputCallback
from ..tfutils.session import JustCurrentSession, NewSessionCreator, device_name, fit_to_host
from ..utils import logger
from ._towers import OnlinePredictor, PredictTowerContext, TowerFunc, TowerTensorHandle

__all__ = ["TowerTrainer", "Trainer"]


class Trainer(trainers.Trainer):
    """Runs steps until the end of the last epoch; takes no arguments, and uses the default graph.

    Set `train_op`, or override `run_step`. Then call `train` or `train_with_defaults`.
    """

    def __new__(cls, *_arguments: Any, **_named: Any) -> Any:
        self = super().__new__(cls)
        self.graph = tf.get_default_graph()
        return self

    def __init__(self, processes: Any = None) -> None:
        super().__init__(processes=processes)

    def _start(self, config: trainers.TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        self.source, self.log_dir = None, None
        unseeded: Any = None
        self.seed = unseeded
        self.loop = LoopState(steps_per_epoch=0, max_epoch=1, starting_epoch=1)
        self.monitors, self.callbacks = Monitors([], self.loop), Callbacks([])
        self._chosen: dict[str, Any] = {}
        if hasattr(self, "initialize_hooks"):
            raise NoCounterpartError(
                "A trainer's initialize_hooks would never be called. Register callbacks with _before_run and "
                f"_after_run, or override run_step: {page('#custom-trainers')}."
            )

    def register_callback(self, callback: Any) -> bool:
        """Adds a callback, or a list of callbacks, before those passed to `train`.

        Returns:
            Whether this process runs it; callbacks for the chief are skipped in other processes.
        """
        if isinstance(callback, (list, tuple)):
            registered = [self.register_callback(each) for each in callback]
            return all(registered)
        if isinstance(callback, InputCallback):
            if self.source is None:
                self.source = callback.source
                return True
            for hook in callback.source.hooks():
                super().register_callback(HookToCallback(hook))
            return True
        if callback.chief_only and not self.is_chief:
            logger.warn("Callback %s is chief-only, skipped.", callback)
            return False
        super().register_callback(callback)
        return True

    _register_callback = register_callback

    def setup_callbacks(self, callbacks: Sequence[Any], monitors: Sequence[Any]) -> None:
        """Sets the callbacks and the monitors, in their order; `main_loop` sets up their graphs."""
        self._chosen.update(callbacks=list(callbacks), monitors=list(monitors))

    def initialize(self, session_creator: Any, session_init: Any) -> None:
        """Sets the options of the session and the values of variables; `main_loop` creates the session.

        Args:
            session_creator: an object such as `NewSessionCreator(config=...)`; the session uses its options.
            session_init: sets the values of variables.
        """
        self._chosen.update(session_config=self._options(session_creator), session_init=session_init)

    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """Trains, after `setup_callbacks` and `initialize`.

        Args:
            steps_per_epoch: the number of steps of an epoch.
            starting_epoch: the first epoch.
            max_epoch: the last epoch.
        """
        steps_per_epoch, max_epoch = limits(int(steps_per_epoch), starting_epoch, int(max_epoch))
        self.config = trainers.TrainConfig(
            **self._chosen,
            extra_callbacks=[],
            steps_per_epoch=steps_per_epoch,
            starting_epoch=starting_epoch,
            max_epoch=max_epoch,
            log_dir=None,
        )
        source, seed = self.source, self.seed
        self._follow(RunPlan(self.config, self.processes))
        self.source, self.seed = source, self.seed if seed is None else seed
        self.log_dir = None if logger.LOG_DIR is None else logger.directory()
        with self.graph.as_default():
            self._chosen["session_init"]._setup_graph()
        super().train()

    def train(  # type: ignore[override]
        self,
        callbacks: Sequence[Any],
        monitors: Sequence[Any],
        session_creator: Any,
        session_init: Any,
        steps_per_epoch: int,
        starting_epoch: int = 1,
        max_epoch: int = 9999999,
    ) -> None:
        """Trains: calls `setup_callbacks`, `initialize` and `main_loop`, which a subclass may override."""
        self.setup_callbacks(callbacks, monitors)
        self.initialize(session_creator, session_init)
        self.main_loop(steps_per_epoch, starting_epoch, max_epoch)

    def _options(self, creator: Any) -> tf.ConfigProto | None:
        """Returns the program's options for the session, with a device for each tower."""
        if not getattr(creator, "user_provided_config", True):
            return None
        config = getattr(creator, "config", None)
        towers = [name for name in self.devices if name.startswith("/cpu")]
        if config is not None and len(towers) > 1:
            config.device_count["CPU"] = len(towers)
        return config

    def _own_callbacks(self) -> list[Any]:
        return [_StartQueues(), *trainers.Trainer._own_callbacks(self), *averages(self.graph)]

    def _session_config(self) -> tf.ConfigProto:
        return fit_to_host(super()._session_config())

    def train_with_defaults(
        self,
        _sentinel: None = None,
        callbacks: Sequence[Any] | None = None,
        monitors: Sequence[Any] | None = None,
        session_creator: Any = None,
        session_init: Any = None,
        steps_per_epoch: int | None = None,
        starting_epoch: int = 1,
        max_epoch: int = 9999999,
        extra_callbacks: Sequence[Any] | None = None,
    ) -> None:
        """Trains with additional default callbacks and monitors; see `train`."""
        assert _sentinel is None, "Please call `train_with_defaults` with keyword arguments only!"
        assert steps_per_epoch is not None, "train_with_defaults needs steps_per_epoch="
        extra = DEFAULT_CALLBACKS() if extra_callbacks is None else extra_callbacks
        self.train(
            [*copy.copy(callbacks or []), *extra],
            DEFAULT_MONITORS() if monitors is None else monitors,
            session_creator or NewSessionCreator(),
            session_init or JustCurrentSession(),
            steps_per_epoch,
            starting_epoch,
            max_epoch,
        )

    steps_per_epoch = property(attrgetter("loop.steps_per_epoch"), doc="The number of steps of an epoch.")
    starting_epoch = property(attrgetter("loop.starting_epoch"), doc="The first epoch of this run.")
    max_epoch = property(attrgetter("loop.max_epoch"), doc="The last epoch.")


class _StartQueues(Callback):
    """Starts the threads of queues that are made in the graph, as `tf.train.MonitoredSession` does."""

    _chief_only = False

    def _before_train(self) -> None:
        for runner in self.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            runner.create_threads(self.trainer.sess, self.trainer.coord, daemon=True, start=True)


class _GiveSession(Callback):
    """Passes the session to predictors that were created before it."""

    _chief_only = False

    def __init__(self, predictors: list[Any]) -> None:
        self._predictors = predictors

    def _before_train(self) -> None:
        for predictor in self._predictors:
            predictor.sess = self.trainer.sess


class TowerTrainer(Trainer, trainers.TowerTrainer):
    """A trainer with a tower function, which can build the model again for predictions."""

    _tower_function_set: TowerFunc | None = None

    def _start(self, config: trainers.TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        super()._start(config, arguments)
        self._evaluation_towers: list[Any] = []
        self._predictors: list[Any] = []

    def _set_tower_func(self, function: Any) -> None:
        assert self._tower_function_set is None, "tower_func can only be set once"
        self._tower_function_set = TowerFunc(function, getattr(function, "input_signature", ()))

    tower_func = property(
        attrgetter("_tower_function_set"), _set_tower_func, doc="The function; set it once."
    )

    def build_prediction_tower(
        self, function: TowerFunc, name: str, device: int, take_inputs: Callable[[], Sequence[tf.Tensor]]
    ) -> TowerTensorHandle:
        """Builds a replica that does not train.

        Args:
            function: the tower function.
            name: the name scope.
            device: the index of a GPU, or -1 for the CPU; hosts without a GPU use the CPU.
            take_inputs: returns the input tensors on the device.
        """
        scope = self._vs_name_for_predictor(device)
        with (
            tf.variable_scope(tf.get_variable_scope(), reuse=True),
            tf.device(device_name(device)),
            PredictTowerContext(name, scope),
        ):
            function(*take_inputs())
        return function.towers[len(function.towers) - 1]

    def _vs_name_for_predictor(self, device: int) -> str:
        towers = self.towers.training()
        return "" if not len(towers) else towers[device if 0 <= device < len(towers) else 0].vs_name

    def get_predictor(  # type: ignore[override]
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> Any:
        """Creates a function from input arrays to output arrays, with a replica that does not train.

        Args:
            input_names: names of inputs or tensors.
            output_names: names of tensors.
            device: the index of a GPU, or -1 for the CPU.
        """
        name = f"tower-pred-{device}" if device >= 0 else "tower-pred-cpu"
        try:
            tower = self.towers[name]
        except KeyError:
            signature = self.input_signature
            with tf.name_scope(None):
                tower = self.build_prediction_tower(
                    self.tower_func,
                    name,
                    device,
                    lambda: [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in signature],
                )
        predictor = OnlinePredictor(tower.get_tensors(input_names), tower.get_tensors(output_names))
        self._predictors.append(predictor)
        return predictor

    def _own_callbacks(self) -> list[Any]:
        return [*Trainer._own_callbacks(self), _GiveSession(self._predictors)]

    # A trainer with only a `train_op` has no towers.
    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name: from the whole graph or, if missing, from the first tower."""
        kind = trainers.TowerTrainer if self.tower_func is not None else trainers.Trainer
        return kind.get_tensors(self, names)

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return trainers.TowerTrainer._training_inputs(self) if self.tower_func is not None else ()

    def _tower_inputs(self) -> Sequence[tf.Tensor]:
        return trainers.TowerTrainer._tower_inputs(self) if self.tower_func is not None else ()

    input_signature = property(attrgetter("tower_func.input_signature"), doc="The inputs of a tower, a list.")

    towers = property(attrgetter("tower_func.towers"), doc="The replicas, by index or name.")
