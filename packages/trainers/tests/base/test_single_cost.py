"""Trainers of one cost, and the hooks of their subclasses."""

import inspect
import re

import pytest
import tensorflow.compat.v1 as tf

import towerpack_trainers
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    BuilderTrainer,
    NoOpTrainer,
    SimpleTrainer,
    SingleCostTrainer,
    SingleDeviceBuilder,
    SyncMultiGPUTrainer,
    TowerTrainer,
    Trainer,
)

BASES = [Trainer, TowerTrainer, BuilderTrainer, SingleCostTrainer]
TRAINERS = {
    thing
    for thing in vars(towerpack_trainers).values()
    if inspect.isclass(thing) and issubclass(thing, Trainer)
}
LEAVES = sorted(TRAINERS - set(BASES), key=lambda trainer: trainer.__name__)


def documented_hooks():
    return {
        name
        for base in BASES
        for name in vars(base)
        if name.startswith("_") and not name.startswith("__") and f"`{name}(" in base.__doc__
    }


def test_hooks_are_documented():
    assert documented_hooks() == {
        "_build_train_op",
        "_make_builder",
        "_make_source",
        "_own_callbacks",
        "_session_config",
        "_setup",
        "_tower_function",
        "_training_inputs",
    }


@pytest.mark.parametrize("trainer", LEAVES, ids=lambda trainer: trainer.__name__)
def test_a_trainer_is_one_leaf_and_overrides_documented_hooks_only(trainer):
    # One class stands between the leaves and the trainers with a builder, such as that of a single cost.
    bases = (BuilderTrainer, TowerTrainer, *Trainer.__mro__)
    assert bases in (trainer.__mro__[1:], trainer.__mro__[2:])
    assert trainer is SimpleTrainer or trainer.__final__  # a tutorial extends the simplest one
    private = {name for name in vars(trainer) if re.match(r"_(?!_|abc_)", name)}  # _abc_impl is ABCMeta's
    assert private <= documented_hooks()


def test_all_trainers_are_checked():
    assert {SimpleTrainer, NoOpTrainer, SyncMultiGPUTrainer, AsyncMultiGPUTrainer} < set(LEAVES)


def test_a_custom_step(kit, configure):
    class Clipped(SingleCostTrainer):
        def _build_train_op(self):
            tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
            optimizer = self.config.make_optimizer()
            gradients, variables = zip(*optimizer.compute_gradients(tower.output))
            clipped, _ = tf.clip_by_global_norm(gradients, 0.1)
            return optimizer.apply_gradients(zip(clipped, variables))

    clipped, whole = kit.Weights(), kit.Weights()
    trainer = Clipped(configure(callbacks=[clipped], steps_per_epoch=1, max_epoch=1))
    assert trainer.builder is None
    trainer.train()
    SimpleTrainer(configure(callbacks=[whole], steps_per_epoch=1, max_epoch=1)).train()
    assert clipped.values["slope"] == pytest.approx(0.1 * 0.05)
    assert whole.values["slope"] > 2 * clipped.values["slope"]


def test_a_custom_builder(kit, configure):
    seen = []

    def halve(pairs):
        seen.append([variable.op.name for _, variable in pairs])
        return [(gradient / 2, variable) for gradient, variable in pairs]

    class Halved(SingleCostTrainer):
        def _make_builder(self):
            return SingleDeviceBuilder(self.seed, exchange=halve)

    half, whole = kit.Weights(), kit.Weights()
    trainer = Halved(configure(callbacks=[half], steps_per_epoch=1, max_epoch=1))
    assert [tower.context.name for tower in trainer.builder.towers] == [""]
    trainer.train()
    SimpleTrainer(configure(callbacks=[whole], steps_per_epoch=1, max_epoch=1)).train()
    assert seen == [["slope"]]
    assert half.values["slope"] * 2 == pytest.approx(whole.values["slope"])
