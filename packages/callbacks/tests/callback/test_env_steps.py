"""Steps in environments: they advance many at once, between two steps of the loop."""

import json

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import (
    Callback,
    CSVWriter,
    Every,
    HyperParamSetterWithFunc,
    JSONWriter,
    LoopState,
    ModelSaver,
    ObjAttrParam,
    PeriodError,
    PeriodicTrigger,
    ScalarPrinter,
    ScheduledHyperParamSetter,
    StatisticError,
    StepFetch,
    StopAfter,
    as_session_hooks,
)
from towerpack_callbacks.callback import DueSchedule
from towerpack_callbacks.checkpoint import read_checkpoint, save_now
from towerpack_callbacks.hyperparam import over
from towerpack_callbacks.hyperparam.schedules import polynomial


class Acts(Callback):
    """Takes 7 steps in environments before each third step, behind all savers."""

    def _setup_graph(self):
        self.turn = None

    def step_period(self):
        return Every(steps=3)

    def _before_train(self):
        self._act()

    def _after_triggers(self):
        self._act()

    def _act(self):
        if self.global_step % 3 == 0 and self.turn != self.global_step:
            self.turn = self.global_step
            self.trainer.loop.env_steps += 7

    def state_dict(self):
        return {"turn": self.turn}

    def load_state_dict(self, state):
        self.turn = state["turn"]


class Record(Callback):
    """Notes at which steps it is triggered."""

    def __init__(self):
        self.steps = []

    def _trigger(self):
        self.steps.append((self.global_step, self.env_steps))


class Fetch(Callback):
    """Notes at which steps something is fetched for it."""

    def __init__(self, every):
        self.every = every
        self.steps = []

    def step_fetches(self):
        return [StepFetch(self.trainer.get_tensors(["weight"]), self._note, self.every)]

    def _note(self, value):
        self.steps.append((self.global_step, self.env_steps))


def train(log_dir, callbacks, monitors=(), max_epoch=5, resume=None, save_late=None):
    """Trains 20 steps; may save at a step after the environments were stepped, as a signal lets a loop do."""

    class SaveLate(Callback):
        def _after_triggers(self):
            if self.global_step == save_late:
                save_now(savers)

    savers = (
        [PeriodicTrigger(ModelSaver(None, background=False), every_k_steps=1)]
        if save_late is None
        else [PeriodicTrigger(ModelSaver(background=False), every_k_steps=99)]
    )
    with tf.Graph().as_default():
        op = tf.get_variable("weight", [], initializer=tf.zeros_initializer()).assign_add(1.0)
        hooks = as_session_hooks(
            [*callbacks, *savers, Acts(), SaveLate()],
            steps_per_epoch=4,
            max_epoch=max_epoch,
            log_dir=log_dir,
            monitors=monitors,
            resume=resume,
        )
        steps = 0
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(op)
                steps += 1
    return steps


def watched(periods):
    """Callbacks with periods, and what each has seen."""
    records, fetch = [Record() for _ in periods], Fetch(periods[0])
    both = PeriodicTrigger(Record(), every=periods[0], every_k_steps=19)
    triggers = [PeriodicTrigger(record, every=every) for record, every in zip(records, periods)]
    seen = [*(record.steps for record in records), both.callback.steps, fetch.steps]
    return [fetch, *triggers, both], seen


def test_it_is_due_at_the_first_step_that_ends_with_so_many_behind_it(tmp_path):
    callbacks, seen = watched(["10 env_steps", "7 env_steps", "30 env_steps"])
    train(tmp_path, callbacks)
    assert seen[0] == [(4, 14), (7, 21), (13, 35), (16, 42)]
    assert seen[1] == [(step, 7 + 7 * (step // 3)) for step in (1, 4, 7, 10, 13, 16, 19)]
    assert seen[2] == [(13, 35)]
    assert seen[3] == [*seen[0], (19, 49)]
    assert seen[4] == seen[0]


@pytest.mark.parametrize("late", [False, True], ids=["at the triggers", "behind them"])
def test_it_does_not_matter_where_a_run_is_resumed(tmp_path, late):
    periods = ["10 env_steps", "3 env_steps", "20 env_steps"]
    callbacks, whole = watched(periods)
    train(tmp_path / "whole", callbacks)
    for step in (3, 6, 12, 15) if late else (3, 5, 7, 12):
        if late:
            train(tmp_path / f"{step}", [], save_late=step)
        place = tmp_path / (f"{step}" if late else "whole") / f"model-{step}"
        callbacks, seen = watched(periods)
        train(tmp_path / f"from-{step}", callbacks, resume=place)
        assert seen == [[pair for pair in pairs if pair[0] > step] for pairs in whole]


def test_the_state_is_as_it_was_where_nobody_acts():
    loop = LoopState(steps_per_epoch=3)
    assert loop.state_dict().keys() == {"epoch_num", "local_step", "global_step", "steps_per_epoch"}
    loop.load_state_dict({"epoch_num": 1, "local_step": 0, "global_step": 1, "steps_per_epoch": 3})
    assert loop.env_steps_passed == (0, 0)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=3),
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
)
def test_a_schedule_agrees_with_asking_each_period(periods, acted):
    loop = LoopState(steps_per_epoch=3)
    items = [(number, Every(env_steps=number)) for number in periods]
    schedule = DueSchedule(items, env_steps=lambda: loop.env_steps_passed)
    for step, more in enumerate(acted, 1):
        loop.env_steps += more
        multiples = range(loop.observed_env_steps + 1, loop.env_steps + 1)
        expected = tuple(number for number in periods if any(each % number == 0 for each in multiples))
        assert not expected or schedule.unobserved_steps(step - 1) == 0
        assert schedule.due(step, 1, False) == expected
        loop.observed_env_steps = loop.env_steps
        assert schedule.unobserved_steps(step) == float("inf")


# ---- what uses them


@pytest.mark.parametrize(
    ("amount", "steps"),
    [("20 env_steps", 7), (Every(steps=9), 9), ("2 epochs", 8), ("1 env_steps", 1), ("1 h", 20)],
    ids=str,
)
def test_a_training_ends_after_so_much_and_is_over_then(tmp_path, caplog, amount, steps):
    caplog.set_level("INFO")
    saver = PeriodicTrigger(ModelSaver(background=False), every=amount)
    assert train(tmp_path, [StopAfter(amount), saver]) == steps
    if steps < 20:
        assert read_checkpoint(tmp_path).state["loop"]["global_step"] == steps
        assert f"Training stops at step {steps}: the limit of StopAfter(" in caplog.text
        assert train(tmp_path, [StopAfter(amount), saver], resume="auto") == 0
        assert "Training does not start: the limit of StopAfter(" in caplog.text


def test_a_training_ends_after_a_time(tmp_path):
    assert train(tmp_path / "short", [StopAfter(Every(seconds=1e-9))]) == 1
    assert str(StopAfter("3 h")) == "StopAfter('10800 seconds')"
    with pytest.raises(PeriodError, match="is not understood"):
        StopAfter("3 days")


class Holder:
    """Has a parameter."""

    value = 1.0


def test_schedules_follow_them(tmp_path):
    seen = {}

    class Look(Callback):
        def _trigger_step(self):
            seen.setdefault(self.global_step, []).append([holder.value for holder in holders])

    def callbacks():
        holders[:] = Holder(), Holder()
        param, other = (ObjAttrParam(holder, "value") for holder in holders)
        points = [(0, 1.0), (14, 0.5), (28, 0.0)]
        table = ScheduledHyperParamSetter(param, points, interp="linear", env_step_based=True)
        function = HyperParamSetterWithFunc(other, over(polynomial(1.0), total=28), every="14 env_steps")
        return [Look(), table, function]

    holders = []
    train(tmp_path / "whole", callbacks())
    assert [seen[step][0] for step in (1, 2, 4, 5, 8, 11, 20)] == [
        [1.0, 1.0],
        [0.75, 1.0],
        [0.75, 1.0],
        [0.5, 0.5],
        [0.25, 0.5],
        [0.0, 0.0],
        [0.0, 0.0],
    ]
    for step in (3, 4, 9):
        train(tmp_path / f"{step}", callbacks(), resume=tmp_path / "whole" / f"model-{step}")
    train(tmp_path / "late", callbacks(), save_late=6)
    train(tmp_path / "from late", callbacks(), resume=tmp_path / "late")
    assert all(value == values[0] for values in seen.values() for value in values)
    with pytest.raises(ValueError, match="received step_based=True and env_step_based=True"):
        ScheduledHyperParamSetter("a", [(0, 1.0)], step_based=True, env_step_based=True)


def test_files_and_the_console_have_them(tmp_path, capsys):
    class Put(Callback):
        def _trigger_step(self):
            self.trainer.monitors.put_scalar("cost", 1.0)
            with pytest.raises(StatisticError, match="has a counter of this name"):
                self.trainer.monitors.put_scalar("env_steps", 1.0)

        def produces(self):
            return ["cost"]

    train(tmp_path, [Put()], [JSONWriter(), CSVWriter(), ScalarPrinter()], max_epoch=1)
    rows = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [7, 7, 7, 14]
    assert list(rows[0]) == ["epoch_num", "global_step", "env_steps", "cost"]
    assert (tmp_path / "stats.csv").read_text().splitlines()[:2] == [
        "epoch_num,global_step,env_steps,cost",
        "1,1,7,1.0",
    ]
    assert "epoch 1/1, step 4, env_steps 14: cost 1" in capsys.readouterr().err
