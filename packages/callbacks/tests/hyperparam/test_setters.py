"""Hyper-parameters change at the right steps, and only there."""

import json
import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    GraphVarParam,
    HumanHyperParamSetter,
    HyperParamSetterWithFunc,
    ObjAttrParam,
    PeriodError,
    PeriodicTrigger,
    ScheduledHyperParamSetter,
    StatisticError,
    StatMonitorParamSetter,
    StepFetch,
    StopTraining,
    TensorNotFoundError,
)
from towerpack_callbacks.hyperparam import cosine, over


class Model:
    """Something with an attribute to set."""

    rate = 1.0


class Watch(Callback):
    """Keeps the value that each step saw."""

    def __init__(self, model=None):
        self.seen, self.model = [], model

    def step_fetches(self):
        if self.model is not None:
            return []
        return [StepFetch(self.trainer.get_tensors(["rate"])[0], lambda rate: self.seen.append(float(rate)))]

    def _before_run(self, context):
        if self.model is not None:
            self.seen.append(self.model.rate)


@pytest.fixture
def rates(line):
    """Trains with a setter of a variable "rate", 1 at first, and returns the value each step saw."""

    def run(setter, *others, **arguments):
        with line.graph.as_default():
            tf.get_variable("rate", [], initializer=tf.ones_initializer(), trainable=False)
        watch = Watch()
        line.run([*others, setter, watch], **{"steps_per_epoch": 2, "max_epoch": 4, **arguments})
        return watch.seen

    return run


def schedule(*pairs, **arguments):
    return ScheduledHyperParamSetter("rate", pairs, **arguments)


@pytest.mark.parametrize(
    ("setter", "expected"),
    [
        (schedule((0, 0.5), (2, 0.25)), [0.5] * 4 + [0.25] * 4),
        (schedule((1, 0.5), (3, 0.0)), [1, 1, 0.5, 0.5, 0.5, 0.5, 0, 0]),
        (schedule((1, 3.0), (3, 5.0), interp="linear"), [1, 1, 3, 3, 4, 4, 5, 5]),
        (schedule((0, 3.0), (9, 12.0), interp="linear"), [3, 3, 4, 4, 5, 5, 6, 6]),
        (schedule((3, 0.5), (4, 0.25), step_based=True), [1, 1, 1, 0.5, 0.25, 0.25, 0.25, 0.25]),
        (schedule((2, 0), (6, 4), step_based=True, interp="linear"), [1, 1, 0, 1, 2, 3, 4, 4]),
        (schedule((0, 0.5), (2, 0.25), set_at_beginning=False), [1] * 4 + [0.25] * 4),
        (HyperParamSetterWithFunc("rate", lambda _, old: old / 2), [1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 8]),
        (HyperParamSetterWithFunc("rate", lambda epoch, old: epoch, every="2 epochs"), [0] * 4 + [2] * 4),
        (HyperParamSetterWithFunc("rate", lambda step, old: step, every="1 step"), list(range(8))),
        (HyperParamSetterWithFunc("rate", lambda step, old: None, every="3 steps"), [1] * 8),
        (HyperParamSetterWithFunc("rate", over(cosine(4.0), 4)), [4, 4, 3.414, 3.414, 2, 2, 0.586, 0.586]),
    ],
)  # fmt: skip
def test_each_step_sees_the_value_it_should(rates, setter, expected):
    assert rates(setter)[: len(expected)] == pytest.approx(expected, abs=1e-3)


def test_others_may_set_between_the_changes_of_a_schedule(rates):
    def halve_once(epoch, old):
        return old / 2 if epoch == 1 else None

    other = HyperParamSetterWithFunc("rate", halve_once)
    assert rates(schedule((0, 1.0), (2, 3.0)), other) == [1, 1, 0.5, 0.5, 3, 3, 3, 3]


def test_a_parameter_with_a_shape_is_set_as_a_copy(line):
    with line.graph.as_default():
        tf.get_variable("scales", [16, 16], initializer=tf.ones_initializer(), trainable=False)
    values = np.zeros([16, 16], np.float32)
    param = GraphVarParam("scales:0", shape=(16, 16))

    class Read(Callback):
        def _before_train(self):
            values[:] = 7
            self.read = param.get_value()

    read = Read()
    line.run([HyperParamSetterWithFunc(param, lambda epoch, old: values), read])
    np.testing.assert_array_equal(read.read, np.zeros([16, 16]))


def test_an_attribute_is_a_parameter(line):
    model = Model()
    watch = Watch(model)
    setter = HyperParamSetterWithFunc(ObjAttrParam(model, "rate", "the model's rate"), lambda e, old: old * 2)
    line.run([setter, watch], steps_per_epoch=1, max_epoch=3)
    assert watch.seen == [2, 4, 8]
    assert str(setter) == 'HyperParamSetterWithFunc("the model\'s rate")'


@pytest.fixture
def resumed(straight_line, tmp_path):
    """Trains for two epochs, loads the setter's state into a new one, and returns what its steps see."""

    def run(make):
        first, model = make(Model()), Model()
        straight_line(tmp_path / "a").run([first], steps_per_epoch=1, max_epoch=2)
        second, watch = make(model), Watch(model)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        straight_line(tmp_path / "b").run([second, watch], steps_per_epoch=1, max_epoch=2)
        return watch.seen

    return run


def test_a_function_of_the_old_value_is_not_applied_twice_by_a_restart(resumed):
    def make(model):
        return HyperParamSetterWithFunc(ObjAttrParam(model, "rate"), lambda epoch, old: old * 2)

    # Set before step 1, after it, and after step 2: it has been doubled three times.
    assert resumed(make)[0] == 8


def test_a_schedule_that_was_changed_counts_as_it_is_now(resumed, caplog):
    schedules = [[(0, 0.5), (1, 0.0)], [(0, 0.25), (1, 0.0)]]

    def make(model):
        return ScheduledHyperParamSetter(ObjAttrParam(model, "rate"), schedules.pop(0))

    assert resumed(make) == [0.25, 0.0]
    assert "was 0.0, but the schedule now gives 0.25" in caplog.text


def test_changes_are_logged_once_per_epoch(rates, caplog):
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    rates(HyperParamSetterWithFunc("rate", lambda step, old: step // 4, every="1 step"))
    lines = [record.getMessage() for record in caplog.records if "rate is" in record.getMessage()]
    assert lines == ["rate is 0 since step 2.", "rate is 1 since step 4.", "rate is 2 since step 8."]


# ---- by a statistic


class Play(Callback):
    """Puts given values, one per epoch; None for none."""

    def __init__(self, values):
        self.values = values

    def _trigger(self):
        value = self.values[self.epoch_num - 1]
        if value is not None:
            self.trainer.monitors.put_scalar("error", value)

    def produces(self):
        return ["error"]


def on_plateau(**arguments):
    return StatMonitorParamSetter(
        "rate", "error", lambda old: old / 2, **{"threshold": 0.1, "last_k": 3, **arguments}
    )


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        ([5, 4, 3, 2, 1, 0.5], {}, [1, 1, 1, 1, 1, 1]),
        ([5, 5, 5, 5, 5, 5], {}, [1, 1, 1, 0.5, 0.5, 0.5]),
        ([5, 4.95, 4.91, 4, 3, 2], {}, [1, 1, 1, 0.5, 0.5, 0.5]),
        ([5, 6, 7, 6, 6, 6], {}, [1, 1, 1, 0.5, 0.5, 0.5]),
        ([5, 6, 7, 8, 8, 8], {"reverse": True}, [1, 1, 1, 1, 1, 1]),
        ([8, 8, 8, 9, 9, 9], {"reverse": True, "last_k": 2}, [1, 1, 0.5, 0.5, 0.5, 0.25]),
        ([5, None, 5, None, 5, 5], {}, [1, 1, 1, 1, 1, 0.5]),
    ],
    ids=str,
)
def test_by_a_statistic(rates, values, arguments, expected):
    setter = on_plateau(**arguments)
    assert rates(setter, Play(values), steps_per_epoch=1, max_epoch=6) == expected


def test_one_value_of_a_statistic_counts_once(rates):
    setter = PeriodicTrigger(on_plateau(), every_k_steps=1)
    assert rates(setter, Play([5, 5, 5]), steps_per_epoch=3, max_epoch=2) == [1] * 6


def test_collected_values_survive_a_restart(rates):
    first = on_plateau()
    rates(first, Play([5, 5]), steps_per_epoch=1, max_epoch=2)
    second = on_plateau()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict() == {"values": [5.0, 5.0], "seen": 2}


def test_it_may_stop_the_training(rates):
    def stop(old):
        raise StopTraining("enough")

    setter = StatMonitorParamSetter("rate", "error", stop, threshold=0.1, last_k=2)
    assert len(rates(setter, Play([5] * 6), steps_per_epoch=1, max_epoch=6)) == 2


def test_the_statistic_is_produced_before(line):
    with pytest.raises(StatisticError, match="which no callback produces"):
        line.run([StatMonitorParamSetter("weight", "error", float, 0.1, 3)])


# ---- by a human


class Write(Callback):
    """Writes a file after the first epoch."""

    def __init__(self, path, text):
        self.path, self.text = path, text

    def _trigger(self):
        if self.epoch_num == 1:
            self.path.write_text(self.text)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("rate: 0.5\n", 0.5),
        ("rate:1e-1\nother: 7\n  rate :\t0.25", 0.25),
        ("other: 7\n# nothing of ours", 1),
        ("rate: fast\n", 1),
        ("rate 7\nrate: 0.5\nrate: 0.5.5", 0.5),
    ],
)
def test_by_a_human(rates, tmp_path, caplog, text, second):
    seen = rates(HumanHyperParamSetter("rate"), Write(tmp_path / "hyper.txt", text))
    assert seen == pytest.approx([1, 1] + [second] * 6)
    assert ("has no number after its colon" in caplog.text) == ("fast" in text or "0.5.5" in text)


def test_a_file_that_is_there_counts_from_the_beginning(rates, tmp_path):
    (tmp_path / "mine").write_text("rate: 0.5")
    assert rates(HumanHyperParamSetter("rate", tmp_path / "mine"))[0] == 0.5


def test_a_file_that_cannot_be_read_is_no_reason_to_stop(rates, tmp_path, caplog):
    (tmp_path / "hyper.txt").mkdir()
    assert rates(HumanHyperParamSetter("rate")) == [1] * 8
    assert "cannot read" in caplog.text


def test_without_a_log_directory_the_path_is_absolute(line):
    line.log_dir = None
    with pytest.raises(
        ValueError,
        match=r"reads 'hyper.txt' in the log directory, but the run has no log "
        r"directory",
    ):
        line.run([HumanHyperParamSetter("weight")])


# ---- what is refused


def test_a_variable_that_is_not_there(line):
    with pytest.raises(
        TensorNotFoundError, match=r"no variable 'rate'. It has: .*weight.*Create it in the model"
    ):
        line.run([schedule((0, 1.0))])


def test_a_variable_of_another_shape(line):
    with pytest.raises(
        ValueError, match=r"GraphVarParam\('weight', shape=\(2,\)\): the variable has shape \(\)"
    ):
        line.run([HyperParamSetterWithFunc(GraphVarParam("weight", (2,)), lambda e, o: o)])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0.5, TypeError, r"global_step is an integer variable; received 0.5"),
        ([1, 2], ValueError, r"global_step has shape \(\); received \[1, 2\] of shape \(2,\)"),
    ],
)
def test_a_value_that_does_not_fit(line, value, error, message):
    with pytest.raises(error, match=message):
        line.run([HyperParamSetterWithFunc("global_step", lambda epoch, old: value)])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: schedule(), ValueError, "pairs of .* in increasing order, received"),
        (lambda: schedule(1, 2), ValueError, r"pairs of .*Write \[\(0, 0.1\)"),
        (lambda: schedule((1, 1), (1, 2)), ValueError, "in increasing order"),
        (lambda: schedule((1, 1), interp="cubic"), ValueError, 'expected None or "linear"'),
        (lambda: ScheduledHyperParamSetter(3, [(1, 1)]), TypeError, "takes a HyperParam or the name"),
        (lambda: HyperParamSetterWithFunc("rate", 3), TypeError, "takes a function of the number"),
        (lambda: HyperParamSetterWithFunc("rate", max, every="10 min"), PeriodError, "Use Ticker"),
        (lambda: StatMonitorParamSetter("rate", "e", 3, 0.1, 3), TypeError, "a function of the old value"),
        (lambda: on_plateau(last_k=1), ValueError, "whole number of at least 2"),
        (lambda: ObjAttrParam(Model(), "speed"), AttributeError, "has no attribute 'speed'"),
    ],
)  # fmt: skip
def test_wrong_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
