"""Trainers and configurations in the style of Tensorpack's scripts work, or raise an error with advice."""

import attrs
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ScalarStats
from towerpack_inputsource import QueueInput
from towerpack_trainers import (
    ConfigError,
    FrozenConfigError,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUTrainerParameterServer,
    TowerTrainer,
    TrainConfig,
    Trainer,
    UnknownArgumentError,
    default_session_config,
)
from towerpack_trainers.testing import FinalVariables

DEVICES = ["/cpu:0", "/cpu:1"]


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(TrainConfig)])
def test_an_argument_that_is_assigned_later(name, configure):
    config = configure()
    message = (
        rf"TrainConfig\.{name} was assigned, .*TrainConfig\(\.\.\., {name}=.*attrs\.evolve\(config, {name}="
    )
    with pytest.raises(FrozenConfigError, match=message) as caught:
        setattr(config, name, None)
    assert isinstance(caught.value, ConfigError) and isinstance(caught.value, AttributeError)


def test_an_argument_that_does_not_exist_is_assigned(configure):
    with pytest.raises(FrozenConfigError, match=r"no argument 'steps_per_epoc'.*steps_per_epoch"):
        configure().steps_per_epoc = 3


@pytest.mark.parametrize(
    "wrong, right", [("max_epochs", "max_epoch"), ("epochs", "max_epoch"), ("logdir", "log_dir")]
)
def test_an_argument_with_the_name_of_another_library(wrong, right):
    with pytest.raises(
        UnknownArgumentError, match=f"{wrong!r}. Is {right}= meant[?] It has: model,"
    ) as caught:
        TrainConfig(**{wrong: 1})
    assert isinstance(caught.value, ConfigError) and isinstance(caught.value, TypeError)


def test_an_unknown_or_unnamed_argument(configure):
    with pytest.raises(UnknownArgumentError, match=r"no argument 'zzz'\. It has: model, dataflow,"):
        attrs.evolve(configure(), zzz=1)
    with pytest.raises(UnknownArgumentError, match=r"TrainConfig received 5 without a name; .*name=value"):
        TrainConfig(5)


def test_a_configuration_can_still_be_changed_by_a_copy(configure):
    assert attrs.evolve(configure(), max_epoch=7).max_epoch == 7


def test_a_prediction_that_is_configured_later(kit):
    config = PredictConfig(model=kit.Net(), session_init=SaverRestore("x"), output_names=["logits"])
    with pytest.raises(FrozenConfigError, match=r"PredictConfig\.output_names was assigned"):
        config.output_names = []


@pytest.mark.parametrize("method", ["append", "extend", "insert"])
def test_callbacks_that_are_appended_to_a_configuration(method, configure):
    with pytest.raises(
        AttributeError, match=rf"no attribute '{method}': it is immutable. Change a list first"
    ):
        getattr(configure().callbacks, method)(Callback())
    assert not hasattr(configure().callbacks, "nothing")


def test_an_evaluation_over_a_source_that_repeats(kit, configure):
    runner = InferenceRunner(QueueInput(kit.line_data()), ScalarStats("cost"))
    with pytest.raises(
        ConfigError, match=r"Write QueueInput\(\.\.\., infinite=False\), or pass the DataFlow"
    ):
        SimpleTrainer(configure(callbacks=[runner])).train()


def minimized(trainer, cost):
    return trainer.model.optimizer().minimize(cost)


class BuildsAfterwards(TowerTrainer):
    """Like `GANTrainer` of Tensorpack's examples."""

    def __init__(self, config):
        super().__init__(config)
        tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        self.train_op = minimized(self, tower.output)


class BuildsAll(Trainer):
    """Has neither model nor input."""

    def __init__(self, steps):
        weight = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        super().__init__(steps_per_epoch=steps, max_epoch=1, log_dir=None, callbacks=[FinalVariables()])
        self.train_op = tf.assign_add(weight, 2.0)


class BuildsInSetup(TowerTrainer):
    def _setup(self):
        super()._setup()
        tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        self.train_op = minimized(self, tower.output)


def test_a_subclass_may_build_in_its_init(configure):
    weights = []
    for kind in (BuildsAfterwards, BuildsInSetup, SimpleTrainer):
        end = FinalVariables()
        kind(configure(callbacks=[end])).train()
        weights.append(end.values["slope"])
    assert weights[0] == weights[1] == weights[2] != 0
    assert tf.get_default_graph().version == 0


def test_a_subclass_may_build_before_the_trainer_is_made():
    trainer = BuildsAll(3)
    trainer.train()
    [end] = trainer.config.callbacks
    assert end.values["slope"] == 6


def test_a_class_may_set_is_chief(configure):
    class Quiet(BuildsInSetup):
        is_chief = False

    trainer = Quiet(configure())
    assert trainer.is_chief is False and trainer.config.log_dir is None


class TwoTowers(TowerTrainer):
    """Builds towers on two devices without declaring them."""

    def _setup(self):
        super()._setup()
        builder = SyncMultiGPUParameterServerBuilder(DEVICES)
        self.train_op = builder.build(self.tower_func, self.source.get_input_tensors, self.model.optimizer)


class Devices(Callback):
    """Records the devices of steps."""

    def _before_train(self):
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        self.trainer.sess.run(self.trainer.train_op, options=options, run_metadata=metadata)
        names = {stats.device.rpartition("device:")[2] for stats in metadata.step_stats.dev_stats}
        self.cpus = {name for name in names if name.startswith("CPU")}


def test_towers_are_on_the_devices_of_their_builder(kit, configure):
    look = Devices()
    TwoTowers(configure(data=QueueInput(kit.line_data()), steps_per_epoch=2, callbacks=[look])).train()
    assert look.cpus == {"CPU:0", "CPU:1"}


@pytest.mark.parametrize(
    "kind", [TwoTowers, lambda config: SyncMultiGPUTrainerParameterServer(config, DEVICES)]
)
def test_a_session_without_the_towers_devices_is_refused(kind, kit, configure):
    def config(options):
        return configure(data=QueueInput(kit.line_data()), steps_per_epoch=2, session_config=options)

    options = tf.ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=1)
    with pytest.raises(
        ConfigError, match=r"The session lacks /cpu:1, the devices of towers; .*session_config="
    ):
        kind(config(options)).train()
    kind(config(default_session_config(DEVICES))).train()
