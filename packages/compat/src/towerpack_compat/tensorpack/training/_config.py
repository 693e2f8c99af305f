"""`TrainConfig`, which is mutable until the training starts, and `launch_train_with_config`."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_inputsource import InputSource, StagingInput

from ..callbacks._json_monitors import JSONWriter
from ..input_source import FeedInput, QueueInput
from ..tfutils.session import NewSessionCreator, SaverRestore
from ..utils import logger
from ._cost_trainers import SimpleTrainer, SingleCostTrainer
from ._towers import get_current_tower_context

__all__ = [
    "AutoResumeTrainConfig",
    "ModelDesc",
    "ModelDescBase",
    "TrainConfig",
    "apply_default_prefetch",
    "launch_train_with_config",
]


def _of_older_release(model: Any, name: str) -> Any:
    """Returns the method of a model that was written for Tensorpack 0.8 or before."""
    if not hasattr(model, name):
        raise NotImplementedError
    return getattr(model, name)


class ModelDescBase:
    """Describes a model: its inputs, and the function that builds a replica."""

    @functools.cached_property
    def _signature(self) -> list[tf.TensorSpec]:
        with tf.Graph().as_default():  # for placeholders
            inputs = self.inputs()
            return [tf.TensorSpec(each.shape, each.dtype, each.name.removesuffix(":0")) for each in inputs]

    def get_input_signature(self) -> list[tf.TensorSpec]:
        """Returns the inputs as specs, even if `inputs()` returns placeholders."""
        return list(self._signature)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [spec.name for spec in self._signature]

    def inputs(self) -> Sequence[Any]:
        """Returns a `tf.TensorSpec` or a placeholder for each input."""
        return _of_older_release(self, "_get_inputs")()

    def build_graph(self, *args: Any) -> Any:
        """Builds a replica."""
        _of_older_release(self, "_build_graph")(list(args))
        return getattr(self, "cost", None)

    @property
    def training(self) -> bool:
        """Whether the current replica trains."""
        context = get_current_tower_context()
        return context is not None and context.is_training


class ModelDesc(ModelDescBase):
    """Describes a model with one cost, which `build_graph` returns, and one optimizer."""

    @functools.cached_property
    def _optimizer(self) -> tf.train.Optimizer:
        made = self.optimizer()
        assert isinstance(made, tf.train.Optimizer), f"optimizer() must return an Optimizer, not {made!r}"
        return made

    def get_optimizer(self) -> tf.train.Optimizer:
        """Returns the optimizer, created at the first call."""
        return self._optimizer

    def optimizer(self) -> tf.train.Optimizer:
        """Creates the optimizer."""
        return _of_older_release(self, "_get_optimizer")()


class TrainConfig:
    """The arguments of a training. Its attributes can be set until `launch_train_with_config`.

    Args:
        dataflow: the data, as a DataFlow.
        data: the data, as an `InputSource`.
        model: the model.
        callbacks: the callbacks.
        extra_callbacks: further callbacks; None: the default callbacks.
        monitors: the monitors; None: the default monitors.
        session_creator: creates the session.
        session_config: options of the session.
        session_init: sets the values of variables.
        starting_epoch: the first epoch.
        steps_per_epoch: the number of steps of an epoch; None: the size of the data.
        max_epoch: the last epoch.
        nr_tower: the number of towers, for programs of older releases.
        tower: the towers, for programs of older releases.
    """

    def __init__(
        self,
        dataflow: Any = None,
        data: InputSource | None = None,
        model: ModelDescBase | None = None,
        callbacks: list[Any] | None = None,
        extra_callbacks: list[Any] | None = None,
        monitors: list[Any] | None = None,
        session_creator: Any = None,
        session_config: Any = None,
        session_init: Any = None,
        starting_epoch: int = 1,
        steps_per_epoch: int | None = None,
        max_epoch: int = 99999,
        **older: Any,
    ) -> None:
        assert data is None or dataflow is None, "dataflow and data cannot be both presented in TrainConfig!"
        assert session_creator is None or session_config is None, "Set session_creator or session_config"
        self.dataflow, self.data, self.model = dataflow, data, model
        self.callbacks, self.extra_callbacks, self.monitors = callbacks, extra_callbacks, monitors
        self.session_init = session_init
        self.session_creator = session_creator or NewSessionCreator(config=session_config)
        if steps_per_epoch is None:
            steps_per_epoch = (
                len(dataflow) if dataflow is not None else data.size() if data is not None else None
            )
        assert steps_per_epoch is not None, "Set TrainConfig(steps_per_epoch=): the input has no size."
        self.steps_per_epoch = int(steps_per_epoch)
        self.starting_epoch, self.max_epoch = int(starting_epoch), int(max_epoch)
        if "nr_tower" in older:
            self.nr_tower = older.pop("nr_tower")
            self.tower = list(range(self.nr_tower))
        self.tower = older.pop("tower", getattr(self, "tower", [0]))
        if older:
            raise TypeError(f"TrainConfig received unknown arguments: {', '.join(older)}.")


class AutoResumeTrainConfig(TrainConfig):
    """A `TrainConfig` that resumes from the newest checkpoint in the logger's directory.

    Args:
        always_resume: whether the checkpoint has priority over `session_init=` and `starting_epoch=`.
        arguments: the arguments of `TrainConfig`.
    """

    def __init__(self, always_resume: bool = True, **arguments: Any) -> None:
        if always_resume or arguments.get("session_init") is None:
            found = self.get_sessinit_resume(str(logger.directory()))
            arguments.update({} if found is None else {"session_init": found})
        if always_resume or arguments.get("starting_epoch") is None:
            epoch = JSONWriter.load_existing_epoch_number()
            arguments.update({} if epoch is None else {"starting_epoch": epoch + 1})
        super().__init__(**arguments)

    @staticmethod
    def get_sessinit_resume(dir: str) -> SaverRestore | None:
        """Returns the `SessionInit` of the newest checkpoint of a directory; None without a checkpoint."""
        path = os.path.join(dir, "checkpoint")
        return SaverRestore(path) if tf.train.latest_checkpoint(dir) is not None else None


def apply_default_prefetch(input_source_or_dataflow: Any, trainer: Any) -> InputSource:
    """Returns an input source for a flow: a prefetching one for several towers, otherwise a feeding one."""
    given, kind = input_source_or_dataflow, FeedInput if type(trainer) is SimpleTrainer else QueueInput
    source = given if isinstance(given, InputSource) else kind(given)
    if len(getattr(trainer, "devices", ())) > 1 and isinstance(source, QueueInput):
        source = StagingInput(source)
    return source


def launch_train_with_config(config: TrainConfig, trainer: SingleCostTrainer) -> None:
    """Trains according to a configuration.

    Args:
        config: the configuration.
        trainer: the trainer, created without a configuration.
    """
    assert isinstance(trainer, SingleCostTrainer), trainer
    assert isinstance(config, TrainConfig), config
    assert config.model is not None
    assert config.dataflow is not None or config.data is not None
    model: Any = config.model
    source = apply_default_prefetch(config.data or config.dataflow, trainer)
    trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
    names = ("callbacks", "monitors", "session_creator", "session_init", "steps_per_epoch", "starting_epoch")
    arguments = {name: getattr(config, name) for name in (*names, "max_epoch", "extra_callbacks")}
    trainer.train_with_defaults(**arguments)
