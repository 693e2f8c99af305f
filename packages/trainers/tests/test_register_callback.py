"""Callbacks added to those of the configuration, by the trainer or its user."""

import pytest

from towerpack_callbacks import Callback
from towerpack_trainers import SimpleTrainer, TrainerStateError


class Named(Callback):
    """Has a name that identifies its owner."""

    def __init__(self, owner):
        self.owner = owner


class OfAll(Named):
    chief_only = False


def owners(trainer):
    return [callback.owner for callback in trainer.callbacks if isinstance(callback, Named)]


def test_they_run_after_the_trainers_own_and_before_the_users(configure):
    trainer = SimpleTrainer(configure(callbacks=[Named("user")], extra_callbacks=[Named("extra")]))
    trainer.register_callback(Named("first"))
    trainer.register_callback(Named("second"))
    trainer.explain()
    assert owners(trainer) == ["first", "second", "user", "extra"]
    names = [type(callback).__name__ for callback in trainer.callbacks]
    assert names.index("FlowPositions") < names.index("Named")


def test_a_trainer_may_register_as_it_is_made(configure):
    class Own(SimpleTrainer.__base__):
        def __init__(self, config):
            self.register_callback(Named("before"))
            super().__init__(config)
            self.register_callback(Named("after"))

    trainer = Own(configure())
    trainer.train()
    assert owners(trainer) == ["before", "after"]


def test_registration_after_set_up_is_refused(configure):
    class Late(Callback):
        def _setup_graph(self):
            self.trainer.register_callback(Named("late"))

    trainer = SimpleTrainer(configure(callbacks=[Late()]))
    with pytest.raises(
        TrainerStateError, match=r"register_callback\(Named\) was called after the callbacks were set"
    ):
        trainer.train()


def test_only_callbacks(configure):
    with pytest.raises(TypeError, match="must be Callback objects"):
        SimpleTrainer(configure()).register_callback(print)


def test_a_trainer_without_its_graph_takes_them(kit):
    trainer = SimpleTrainer()
    trainer.register_callback(Named("registered"))
    line = kit.Line()
    trainer.setup_graph(line.inputs(), kit.line_data(), line.build_graph, line.optimizer)
    trainer.train(max_epoch=1, callbacks=[Named("user")], extra_callbacks=[], monitors=[], log_dir=None)
    assert owners(trainer) == ["registered", "user"]


def test_callbacks_of_the_chief_are_dropped_elsewhere(configure):
    class NotChief(SimpleTrainer.__base__):
        is_chief = False

    trainer = NotChief(configure())
    trainer.register_callback(Named("chief"))
    trainer.register_callback(OfAll("all"))
    trainer.train()
    assert owners(trainer) == ["all"]
