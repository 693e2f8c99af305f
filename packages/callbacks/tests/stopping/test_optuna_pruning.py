"""A study of Optuna prunes unpromising trainings."""

import threading

import optuna
import pytest

from towerpack_callbacks import Callback, OptunaPruning

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Error(Callback):
    """Puts an error that falls from epoch to epoch, from a level; none in the second epoch."""

    def __init__(self, level):
        self._level = level

    def _trigger(self):
        if self.epoch_num != 2:
            self.trainer.monitors.put_scalar("error", self._level / self.epoch_num)

    def produces(self):
        return ["error"]


def test_a_study_prunes_trials_worse_than_the_median(straight_line, tmp_path):
    threads = set(threading.enumerate())

    def objective(trial):
        level = trial.suggest_categorical("level", [1.0, 2.0, 3.0, 4.0])
        line = straight_line(tmp_path / str(trial.number))
        line.run([Error(level), OptunaPruning(trial, "error")], steps_per_epoch=2, max_epoch=4)
        return level / 4

    pruner = optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=2)
    sampler = optuna.samplers.GridSampler({"level": [1.0, 2.0, 3.0, 4.0]}, seed=0)
    study = optuna.create_study(direction="minimize", pruner=pruner, sampler=sampler)
    for level in (2.0, 1.0, 4.0, 3.0):
        study.enqueue_trial({"level": level})
    study.optimize(objective, n_trials=4)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "PRUNED", "PRUNED"]
    assert study.trials[0].intermediate_values == {1: 2.0, 3: 2 / 3, 4: 0.5}
    assert study.trials[2].intermediate_values == {1: 4.0, 3: 4 / 3}
    assert not set(threading.enumerate()) - threads


def test_a_pruned_training_gives_the_reason(line):
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=1.5))
    with pytest.raises(optuna.TrialPruned, match="error is 3 after epoch 1"):
        line.run([Error(3.0), OptunaPruning(study.ask(), "error")], steps_per_epoch=2, max_epoch=4)


def test_a_value_is_reported_once_across_a_restart(straight_line, tmp_path):
    trial = optuna.create_study(pruner=optuna.pruners.NopPruner()).ask()
    first, second = OptunaPruning(trial, "error"), OptunaPruning(trial, "error")
    straight_line(tmp_path / "a").run([Error(1.0), first], steps_per_epoch=2, max_epoch=1)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == {"seen": 2}


def test_objects_that_are_not_trials_are_refused():
    with pytest.raises(TypeError, match=r"received 3; expected the optuna\.trial\.Trial"):
        OptunaPruning(3, "error")
