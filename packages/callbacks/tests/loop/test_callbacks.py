"""The order of calls, the cost of idle callbacks, and refused arguments."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    CallbackStateError,
    CheckpointError,
    Every,
    PeriodicTrigger,
    ProxyCallback,
    StepFetch,
    StopTraining,
)
from towerpack_callbacks.loop import PlainLoop


class Recorder(Callback):
    """Writes down what is called, with the counters."""

    def __init__(self):
        self.calls = []

    def note(self, what):
        loop = self.trainer.loop
        self.calls.append((what, loop.epoch_num, loop.local_step, loop.global_step))

    def _setup_graph(self):
        self.calls.append("setup_graph")

    def _before_train(self):
        self.note("before_train")

    def _before_epoch(self):
        self.note("before_epoch")

    def _before_run(self, context):
        self.note("before_run")

    def _after_run(self, context, run_values):
        self.note("after_run")

    def _trigger_step(self):
        self.note("trigger_step")

    def _after_epoch(self):
        self.note("after_epoch")

    def _trigger_epoch(self):
        self.note("trigger_epoch")

    def _after_triggers(self):
        self.note("after_triggers")

    def _after_train(self):
        self.note("after_train")


def test_the_loop_is_as_the_docstring_draws_it(line):
    recorder = Recorder()
    assert line.run([recorder], steps_per_epoch=2, max_epoch=2) == 4
    expected = ["setup_graph", ("before_train", 0, -1, 0)]
    for epoch in (1, 2):
        done = 2 * (epoch - 1)
        expected += [
            ("before_epoch", epoch, -1, done),
            ("before_run", epoch, 0, done),
            ("after_run", epoch, 0, done + 1),
            ("trigger_step", epoch, 0, done + 1),
            ("after_triggers", epoch, 0, done + 1),
            ("before_run", epoch, 1, done + 1),
            ("after_run", epoch, 1, done + 2),
            ("trigger_step", epoch, 1, done + 2),
            ("after_epoch", epoch, 1, done + 2),
            ("trigger_epoch", epoch, 1, done + 2),
            ("after_triggers", epoch, 1, done + 2),
        ]
    assert recorder.calls == [*expected, ("after_train", 2, 1, 4)]


def test_a_proxy_passes_everything_on(line):
    bare, wrapped = Recorder(), Recorder()
    line.run([bare, ProxyCallback(wrapped)])
    assert wrapped.calls == bare.calls


def test_an_idle_callback_is_not_touched_in_a_step(tmp_path):
    class Idle(Callback):
        pass

    callbacks = PlainLoop([Idle()], 2, 1, tmp_path).callbacks
    assert len(callbacks) == 1
    assert callbacks.per_step_callbacks == ()
    assert callbacks.every_step_fetches == ()
    assert not callbacks.needs_every_step


class Fetcher(Callback):
    """Fetches the cost with each step, and twice the step count every second step."""

    def __init__(self):
        self.costs, self.twice = [], []

    def step_fetches(self):
        cost, twice = self.trainer.get_tensors(["cost", "twice"])
        return [StepFetch(cost, self.costs.append), StepFetch(twice, self.twice.append, Every(steps=2))]


def test_fetches_come_along_with_the_step_at_their_period(line):
    fetcher = Fetcher()
    line.run([fetcher])
    assert len(fetcher.costs) == 6
    assert fetcher.costs == sorted(fetcher.costs, reverse=True)
    # Steps are counted after the run, so what runs with step 2 still reads 1.
    assert fetcher.twice == [2, 6, 10]


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ({"every_k_steps": 2}, [2, 4, 6]),
        ({"every_k_epochs": 2}, [6]),
        ({"every_k_steps": 4, "every_k_epochs": 1}, [3, 4, 6]),
        ({"before_train": True}, [0]),
    ],
    ids=str,
)
def test_periodic_trigger(line, periods, expected):
    class Note(Callback):
        def __init__(self):
            self.steps = []

        def _trigger(self):
            self.steps.append(self.global_step)

    note = Note()
    line.run([PeriodicTrigger(note, **periods)])
    assert note.steps == expected


class Watcher(Callback):
    """Watches every second step by itself."""

    def __init__(self):
        self.watched, self.triggered = [], []

    def step_period(self):
        return Every(steps=2)

    def _trigger_step(self):
        self.watched.append(self.global_step)

    def _trigger(self):
        self.triggered.append(self.global_step)


def test_a_triggered_callback_keeps_its_own_step_period(line):
    watcher = Watcher()
    line.run([PeriodicTrigger(watcher, every_k_steps=3)])
    assert (watcher.watched, watcher.triggered) == ([2, 4, 6], [3, 6])


def test_a_step_and_an_epoch_that_are_due_together_trigger_once(line):
    watcher = Watcher()
    line.run([PeriodicTrigger(watcher, every_k_steps=2, every_k_epochs=1)])
    assert watcher.triggered == [2, 3, 4, 6]


def test_triggers_before_training_finish_before_training(line):
    class Finisher(Recorder):
        def _trigger(self):
            self.note("trigger")

    finisher = Finisher()
    line.run([PeriodicTrigger(finisher, before_train=True)])
    calls = [call[0] for call in finisher.calls[1:5]]
    assert calls == ["before_train", "trigger", "after_triggers", "before_epoch"]


def test_periodic_trigger_needs_a_period():
    with pytest.raises(
        ValueError, match=r"PeriodicTrigger\(Recorder\) was given no period. Give every_k_steps"
    ):
        PeriodicTrigger(Recorder())


def test_stop_training_ends_normally(line):
    class Stop(Callback):
        def _trigger_step(self):
            if self.global_step == 2:
                raise StopTraining("enough")

    recorder = Recorder()
    assert line.run([Stop(), recorder]) == 2
    assert recorder.calls[-1][0] == "after_train"


class StopAt(Callback):
    """Asks to stop, in one method."""

    def __init__(self, method):
        setattr(self, method, self.stop)

    def stop(self):
        raise StopTraining("enough")


def test_a_stop_lets_the_other_triggers_of_the_epoch_finish(line):
    recorder = Recorder()
    assert line.run([StopAt("_trigger_epoch"), recorder, StopAt("_after_train")], steps_per_epoch=2) == 2
    assert [call[0] for call in recorder.calls[-4:]] == [
        "after_epoch",
        "trigger_epoch",
        "after_triggers",
        "after_train",
    ]


def test_a_stop_within_an_epoch_lets_the_other_triggers_of_the_step_finish(line):
    class Stop(Callback):
        def _trigger_step(self):
            raise StopTraining("enough")

    recorder = Recorder()
    assert line.run([Stop(), recorder], steps_per_epoch=2) == 1
    assert [call[0] for call in recorder.calls[-3:]] == ["trigger_step", "after_triggers", "after_train"]


def test_after_train_runs_for_all_and_the_first_error_is_raised(line, caplog):
    class Failing(Callback):
        def __init__(self, message):
            self.message = message

        def _after_train(self):
            raise OSError(self.message)

    recorder = Recorder()
    with pytest.raises(OSError, match="first"):
        line.run([Failing("first"), Failing("second"), recorder])
    assert recorder.calls[-1][0] == "after_train"
    assert "after the failure of an earlier callback" in caplog.text


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, r"received 3 of type int"),
        (Recorder, r"Did you forget to call it: `\(\)`\?"),
        (lambda callback: None, r"write CallbackFactory\(trigger=function\)"),
        (tf.train.SessionRunHook(), r"Wrap a session hook: HookToCallback\(hook\)"),
    ],
)
def test_only_callbacks_are_callbacks(thing, message):
    with pytest.raises(TypeError, match=message):
        Callbacks([thing])


def test_the_trainer_is_not_there_before_setup():
    with pytest.raises(CallbackStateError, match=r"Recorder has no trainer yet.*from _setup_graph on"):
        Recorder().trainer  # noqa: B018


def test_running_before_setup_is_refused():
    with pytest.raises(CallbackStateError, match=r"call setup_graph\(trainer\) first"):
        Callbacks([]).before_train()


class Counter(Callback):
    """Has a state."""

    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_equal_callbacks_keep_their_states_apart():
    first, second = Counter(), Counter()
    first.count, second.count = 1, 2
    states = Callbacks([first, second]).state_dict()
    assert states == {"Counter": {"count": 1}, "Counter#2": {"count": 2}}
    other = [Counter(), Counter()]
    Callbacks(other).load_state_dict(states)
    assert [counter.count for counter in other] == [1, 2]


class Replay(Counter):
    """Also a flow: the training's input saves `state_dict()`."""

    seen = 0

    def __iter__(self):
        return iter([[1]])

    def reset_state(self):
        """Part of the flow's interface."""


class CountingReplay(Replay):
    """Has a separate callback state."""

    def callback_state_dict(self):
        return {"seen": self.seen}

    def load_callback_state_dict(self, state):
        self.seen = state["seen"]


@pytest.mark.parametrize(
    "around", [lambda callback: callback, lambda callback: PeriodicTrigger(callback, every_k_epochs=2)]
)
def test_a_callback_that_is_a_flow_has_two_states(around):
    one, other = CountingReplay(), CountingReplay()
    one.count, one.seen, other.count = 5, 3, 7
    states = Callbacks([around(one)]).state_dict()
    assert list(states.values()) == [{"seen": 3}]
    Callbacks([around(other)]).load_state_dict(states)
    assert (other.count, other.seen) == (7, 3)


def test_the_state_of_a_flow_is_not_that_of_a_callback(caplog):
    flow = Replay()
    flow.count = 5
    assert Callbacks([flow]).state_dict() == {}
    with caplog.at_level("INFO", "towerpack_callbacks"):
        Callbacks([flow]).load_state_dict({"Replay": {"count": 9}})
    assert flow.count == 5 and "Replay is also a flow" in caplog.text


def test_a_state_without_its_callback_is_refused():
    with pytest.raises(
        CheckpointError, match=r"states of callbacks that this run lacks: Lost.*This run has: Counter"
    ):
        Callbacks([Counter()]).load_state_dict({"Lost": {}})


def test_names_of_classes_may_have_letters_that_scopes_may_not(line):
    class Prüfer(Callback):
        def _setup_graph(self):
            self.name = tf.constant(1, name="one").op.name

    callback = Prüfer()
    line.run([callback])
    assert callback.name == "Pr_fer/one"


def test_the_name_of_a_variable_gives_its_value(line):
    class Read(Callback):
        def __init__(self):
            self.weights = []

        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["weight"]), self.weights.extend)]

    read = Read()
    line.run([read], max_epoch=1)
    assert [weight.dtype.name for weight in read.weights] == ["float32"] * 3


def test_tensor_names_come_in_a_list(line):
    class Ask(Callback):
        def _setup_graph(self):
            self.trainer.get_tensors("cost")

    with pytest.raises(TypeError, match=r"Expected a list of names, received one string: 'cost'"):
        line.run([Ask()])


def test_callbacks_that_need_a_trainer_raise_an_error(line):
    from towerpack_callbacks import InferenceRunner, ScalarStats

    with pytest.raises(CallbackStateError, match="Use a trainer with a ModelDesc for InferenceRunner"):
        line.run([InferenceRunner([], ScalarStats("cost"))])


def test_the_graphs_own_counting_is_used(tmp_path):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", shape=())
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight), global_step=step)
        from towerpack_callbacks import as_session_hooks

        hooks = as_session_hooks([Recorder()], steps_per_epoch=5)
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            for _ in range(3):
                sess.run(train_op)
            assert sess.run(step) == 3


@pytest.mark.parametrize("steps", [0, -1, 1.5, None])
def test_an_epoch_has_steps(steps):
    from towerpack_callbacks import as_session_hooks

    with pytest.raises(ValueError, match=r"steps_per_epoch=.*whole number of at least 1"):
        as_session_hooks([], steps_per_epoch=steps)


def test_a_predictor_is_made_before_the_session_and_called_in_it(line):
    class Predict(Callback):
        def _setup_graph(self):
            self._double = self.trainer.get_predictor(["cost"], ["twice_the_cost"])

        def _trigger(self):
            self.doubled = self._double(4.0)
            with pytest.raises(TypeError, match=r"takes 1 arrays \(cost\), received 2"):
                self._double(1.0, 2.0)

    with line.graph.as_default():
        tf.multiply(line.graph.get_tensor_by_name("cost:0"), 2, name="twice_the_cost")
    predict = Predict()
    line.run([predict])
    assert predict.doubled == [8.0]


def test_a_dry_run_triggers_everything_once(tmp_path):
    class Note(Recorder):
        def _trigger(self):
            self.note("trigger")

    rare, often = Note(), Note()
    loop = PlainLoop([PeriodicTrigger(rare, every_k_epochs=100), often], 2, 1, tmp_path)
    loop.callbacks.trigger_all()
    assert [call[0] for call in rare.calls[1:]] == ["trigger", "after_triggers"]
    assert [call[0] for call in often.calls[1:]] == ["trigger", "after_triggers"]


def test_a_dry_run_that_is_stopped_finishes_what_was_triggered(tmp_path):
    recorder = Recorder()
    loop = PlainLoop([StopAt("_trigger"), recorder], 2, 1, tmp_path)
    with pytest.raises(StopTraining):
        loop.callbacks.trigger_all()
    assert recorder.calls[-1][0] == "after_triggers"


def test_after_triggers_receives_a_stop(tmp_path):
    class Notes(Callback):
        """Notes whether a step follows."""

        stops = ()

        def _after_triggers(self):
            self.stops += (self.trainer.loop.stop,)

    notes = Notes()
    loop = PlainLoop([StopAt("_trigger_epoch"), notes], 2, 3, tmp_path)
    with pytest.raises(StopTraining) as caught:
        loop.callbacks.trigger_epoch()
    assert notes.stops == (caught.value,)
    loop = PlainLoop([notes], 2, 1, tmp_path / "other")
    loop.callbacks.trigger_epoch()
    assert notes.stops[1:] == (None,)


def test_a_predictor_takes_each_input_once(line):
    class Ask(Callback):
        def _setup_graph(self):
            with pytest.raises(ValueError, match=r"takes each input once, received cost:0 more than once"):
                self.trainer.get_predictor(["cost", "cost:0"], ["cost"])

    line.run([Ask()])
