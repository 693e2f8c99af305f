"""Unobserved steps run several in one session call, without any other difference."""

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Every,
    HookToCallback,
    ModelSaver,
    MovingAverageSummary,
    PeriodicCallback,
    PeriodicTrigger,
    StepFetch,
    StopTraining,
    add_moving_summary,
)
from towerpack_callbacks.checkpoint import read_checkpoint
from towerpack_inputsource import FeedInput, QueueInput, StagingInput
from towerpack_layers import BatchNorm, Conv2D, FullyConnected, MaxPooling
from towerpack_trainers import ModelDesc, SimpleTrainer, SyncMultiGPUTrainer, Trainer
from towerpack_trainers.step import SpeedTrial, _fused_steps

STEPS = 40  # of an epoch


@pytest.fixture
def calls(monkeypatch):
    """The number of steps of each session call with a limit."""
    made = []
    make_callable = tf.Session._make_callable_from_options

    def noted(self, options):
        call = make_callable(self, options)

        def run(limit):
            made.append(0)
            [made[-1]] = done = call(limit)
            return done

        return run if any("steps_limit" in feed for feed in options.feed) else call

    monkeypatch.setattr(tf.Session, "_make_callable_from_options", noted)
    return made


@pytest.fixture
def fused(calls, monkeypatch):
    """The same, with a trial that immediately finds several steps per call faster."""
    monkeypatch.setattr(SpeedTrial, "SINGLES", 0)
    monkeypatch.setattr(SpeedTrial, "is_faster", True)
    return calls


class See(Callback):
    """Fetches the cost at a period, together with the counters."""

    def __init__(self, every):
        self.every, self.seen = every, []

    def step_fetches(self):
        [cost] = self.trainer.get_tensors(["cost"])
        return [StepFetch(cost, self._receive, self.every)]

    def _receive(self, cost):
        self.seen.append((self.epoch_num, self.local_step, self.global_step, float(cost)))


class Triggered(Callback):
    """Records the steps of its triggers."""

    def __init__(self):
        self.when = []

    def _trigger(self):
        self.when.append((self.epoch_num, self.local_step, self.global_step))


class Last(Callback):
    """Records the final counters."""

    def _after_train(self):
        in_graph = self.trainer.sess.run(tf.train.get_global_step(self.graph))
        self.counters = (self.local_step, self.global_step, int(in_graph))


class Fail(Callback):
    """Fails after a step, at a period."""

    def step_period(self):
        return Every(seconds=0.2)

    def _trigger_step(self):
        raise KeyError("mine")


def train(configure, kit, callbacks=(), trainer=SimpleTrainer, options=None, **changes):
    """Trains two epochs; returns the weights."""
    weights = kit.Weights()
    changes.setdefault("model", kit.Random())
    if "data" not in changes:
        changes.setdefault("dataflow", kit.net_flow())
    config = configure(callbacks=[weights, *callbacks], steps_per_epoch=STEPS, **changes)
    trainer(config, **(options or {})).train()
    return weights.values


def test_weights_are_the_same_to_the_last_bit(configure, kit, fused):
    one_by_one = train(configure, kit, steps_per_run=1)
    assert not fused
    kit.assert_same(one_by_one, train(configure, kit))
    assert max(fused) > 10


class ConvNet(ModelDesc):
    """Convolutions with batch normalisation, pooling and momentum, on tiny images."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8, 3], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        hidden = image
        for number, channels in enumerate((8, 16)):
            hidden = BatchNorm(f"bn{number}", Conv2D(f"conv{number}", hidden, channels, 3, use_bias=False))
            hidden = MaxPooling(f"pool{number}", tf.nn.relu(hidden), 2)
        logits = FullyConnected("fc", hidden, 2)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(loss, name="cost")
        add_moving_summary(cost)
        return cost + 1e-4 * tf.add_n([tf.nn.l2_loss(each) for each in tf.trainable_variables()])

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


@pytest.mark.slow
def test_a_convolutional_net_is_the_same_to_the_last_bit(configure, kit, fused):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(7, 16, 8, 8, 3)).astype(np.float32)
    data = [[batch, (batch.sum((1, 2, 3)) > 0).astype(np.int32)] for batch in images]

    def weights(**changes):
        return train(configure, kit, model=ConvNet(), dataflow=data, max_epoch=5, **changes)

    one_by_one = weights(steps_per_run=1)
    assert not fused and one_by_one["global_step"] == 5 * STEPS == 200
    kit.assert_same(one_by_one, weights())
    assert sum(fused) > 150


@pytest.mark.parametrize("trainer", ["staging", "towers"])
def test_other_steps_that_live_in_the_graph(configure, kit, fused, trainer):
    def weights(**changes):
        if trainer == "towers":
            options = {"devices": ["/cpu:0", "/cpu:1"]}
            return train(configure, kit, trainer=SyncMultiGPUTrainer, options=options, **changes)
        return train(configure, kit, data=StagingInput(QueueInput(kit.net_flow())), **changes)

    kit.assert_same(weights(steps_per_run=1), weights())
    assert max(fused) > 10


def test_callbacks_see_only_their_steps(configure, kit, fused):
    def seen(**changes):
        fetched = [See(Every(steps=7)), See(Every(epochs=1))]
        triggered, average = Triggered(), MovingAverageSummary()
        train(
            configure,
            kit,
            [*fetched, PeriodicTrigger(triggered, every_k_steps=12), average, ModelSaver()],
            **changes,
        )
        return [fetch.seen for fetch in fetched], triggered.when, average.state_dict()["sum"]["cost"]

    assert seen() == seen(steps_per_run=1)
    assert fused and max(fused) < 7


class Acts(Callback):
    """Makes environment steps before each tenth step of the training, as an agent does."""

    def step_period(self):
        return Every(steps=10)

    def _before_train(self):
        self._after_triggers()

    def _after_triggers(self):
        if self.global_step % 10 == 0:
            self.trainer.loop.env_steps += 7


def test_periods_of_steps_in_environments_are_not_passed_over(configure, kit, fused):
    def seen(**changes):
        fetch, triggered = See("14 env_steps"), Triggered()
        watching = PeriodicTrigger(triggered, every="14 env_steps")
        train(configure, kit, [fetch, watching, Acts()], **changes)
        return fetch.seen, triggered.when

    assert seen() == seen(steps_per_run=1)
    assert [step for _, _, step in seen()[1]] == [11, 31, 51, 71]
    assert max(fused) == 9


def test_a_resumed_training_equals_the_whole_one(configure, kit, fused, tmp_path):
    whole = train(configure, kit, steps_per_run=1)
    run = tmp_path / "resumed"
    train(configure, kit, [PeriodicTrigger(ModelSaver(), every_k_steps=33)], max_epoch=1, log_dir=run)
    resumed = train(configure, kit, [ModelSaver()], log_dir=run, resume="auto")
    kit.assert_same(whole, resumed)
    assert fused


@pytest.mark.parametrize(
    "looks",
    [lambda kit: See(Every(steps=1)), lambda kit: HookToCallback(kit.Nothing())],
)
def test_a_callback_for_every_step_sees_every_step(configure, kit, fused, looks):
    train(configure, kit, [looks(kit)])
    assert not fused


@pytest.mark.parametrize(("every", "said"), [(1, False), (2, True)])
def test_explain_reports_whether_steps_may_be_fused(configure, every, said):
    trainer = SimpleTrainer(configure(callbacks=[See(Every(steps=every))], steps_per_epoch=100))
    assert ("steps that no callback looks at: several in one session call" in trainer.explain()) is said


def test_a_trainer_with_custom_steps_runs_all_of_them(configure, kit, fused):
    class Own(SimpleTrainer):
        ran = 0

        def run_step(self):
            self.ran += 1
            super().run_step()

    trainer = Own(configure(steps_per_epoch=STEPS))
    trainer.train()
    assert trainer.ran == 2 * STEPS and not fused


@pytest.mark.parametrize("moment", ["before", "explained", "begin", "amid"])
def test_a_step_assigned_to_the_trainer_is_used_for_each_step(configure, fused, moment):
    trainer, steps = SimpleTrainer(configure(steps_per_epoch=STEPS)), []
    run_step = trainer.run_step

    def noted_step():
        steps.append(trainer.global_step)
        run_step()

    def replace():
        trainer.run_step = noted_step

    class Replace(Callback):
        def _before_epoch(self):
            if moment == ("begin" if self.epoch_num == 1 else "amid"):
                replace()

    trainer = SimpleTrainer(configure(steps_per_epoch=STEPS, callbacks=[Replace()]))
    run_step = trainer.run_step
    if moment == "explained":
        trainer.explain()
    if moment in {"before", "explained"}:
        replace()
    trainer.train()
    assert steps == list(range(STEPS if moment == "amid" else 0, 2 * STEPS))
    assert bool(fused) is (moment == "amid")


def test_a_step_of_the_class_may_be_replaced_and_restored(configure, fused, monkeypatch):
    trainer = SimpleTrainer(configure(steps_per_epoch=STEPS))
    trainer.run_step = original = trainer.run_step
    assert trainer.run_step is original
    monkeypatch.setattr(Trainer, "run_step", lambda self: ran.append(self.hooked_sess.run(self.train_op)))
    ran = []
    SimpleTrainer(configure(steps_per_epoch=STEPS)).train()
    assert len(ran) == 2 * STEPS and not fused


HOOKS = ["_before_run", "_after_run", "_trigger_step", "_before_epoch", "_after_epoch", "_trigger_epoch"]
HOOKS += ["_trigger", "_after_triggers", "_before_train", "_after_train"]


@pytest.mark.parametrize("wrap", [lambda cb: cb, lambda cb: PeriodicCallback(cb, every_k_steps=1)])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_assigned_to_a_callback_is_called(configure, fused, hook, wrap):
    callback, calls = Callback(), []
    setattr(callback, hook, lambda *_: calls.append(callback.global_step))
    SimpleTrainer(configure(steps_per_epoch=STEPS, callbacks=[wrap(callback)])).train()
    each_step, ends = hook in HOOKS[:3] or hook == "_after_triggers", hook in HOOKS[-2:]
    if hook == "_after_triggers":
        assert calls[-1] == 2 * STEPS
    else:
        assert len(calls) == (2 * STEPS if each_step else 1 if ends else 2)
    assert not fused or hook not in HOOKS[:3]


@pytest.mark.parametrize("hook", ["before_run", "after_run"])
def test_a_hook_assigned_to_a_session_hook_is_called(configure, fused, hook):
    session_hook, calls = tf.train.SessionRunHook(), []
    setattr(session_hook, hook, lambda *_: calls.append(1))
    trainer = SimpleTrainer(configure(steps_per_epoch=STEPS, callbacks=[HookToCallback(session_hook)]))
    trainer.train()
    assert len(calls) == 2 * STEPS and not fused


def test_a_trainers_counters_are_whole_numbers(configure, fused):
    seen = []

    class Own(SimpleTrainer):
        def _setup(self):
            super()._setup()
            seen.append((self.epoch_num, self.local_step, self.global_step))

        def run_step(self):
            super().run_step()
            if self.global_step % 25 == 0:  # no op of the graph
                seen.append((self.epoch_num, self.local_step, self.global_step))

    Own(configure(steps_per_epoch=STEPS)).train()
    assert seen == [(0, -1, 0), (1, 24, 25), (2, 9, 50), (2, 34, 75)]


def test_a_fed_step_is_a_separate_call(configure, kit, fused):
    train(configure, kit, data=FeedInput(kit.net_flow()))
    assert not fused


def tells_of_fusing(trainer):
    return "steps that no callback looks at: several in one session call" in trainer.explain()


def staged(**options):
    put = tf.raw_ops.Stage(values=[tf.constant(1.0)], **options)
    with tf.control_dependencies([put]):
        return tf.raw_ops.Unstage(dtypes=[tf.float32], **options)[0].op


def tabled():
    """Reads a value from a table that it wrote in the previous step."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    found = table.lookup(tf.constant(0, tf.int64))
    total = tf.Variable(0, dtype=tf.int64, use_resource=True)
    with tf.control_dependencies([found]):
        return tf.group(table.insert(tf.constant(0, tf.int64), found + 1), total.assign_add(found))


@pytest.mark.parametrize(
    ("make_step", "fuses"),
    [
        (lambda: tf.group(tf.Variable(1.0, use_resource=True).assign_add(1.0)), True),
        (lambda: staged(shared_name="area"), True),
        (staged, False),
        (tabled, False),
        (lambda: tf.random_uniform([]).op, False),
        (lambda: tf.py_func(lambda: None, [], []), False),
    ],
    ids=["variable", "staged", "staged by the name of the op", "table", "random", "Python"],
)
def test_copies_of_some_ops_would_differ(make_step, fuses):
    assert tells_of_fusing(own_trainer(make_step=make_step, steps_per_epoch=1000)) is fuses


@pytest.mark.parametrize(("steps", "fuses"), [(90, False), (91, True)])
def test_a_short_training_ends_before_the_comparison(steps, fuses):
    assert tells_of_fusing(own_trainer(steps_per_epoch=steps)) is fuses


def test_steps_run_one_by_one_first(calls):
    last = Last()
    own_trainer(last, steps_per_epoch=130).train()
    # 90 are timed, which takes another step; an epoch's last step is made by itself.
    assert 0 < sum(calls) <= 130 - 91 - 1
    assert last.counters == (129, 130, 130)


@pytest.mark.parametrize("similar", [1.02, 1.2])
@pytest.mark.parametrize(("several", "one"), [(1.0, 1.01), (1.0, 1.1), (1.3, 1.0), (1.0, 1.5)])
def test_several_threads_run_the_steps_only_if_they_gain_enough(several, one, similar):
    trial = SpeedTrial(2, similar)
    for _ in range(SpeedTrial.SINGLES):
        trial.note_single(2e-3)
    while trial.is_faster is None:
        trial.note_several((several, one)[trial.next_way] * 1e-2, 10)
    assert trial.is_faster
    assert trial.fastest_way == (0 if one > similar * several else 1)


def test_the_processor_that_a_flow_needs_is_left_to_it(configure, kit, fused, monkeypatch):
    similar, make = [], _fused_steps._ManySteps

    def noted(calls, spare, about):
        similar.append(about)
        return make(calls, spare, about)

    monkeypatch.setattr(_fused_steps, "_ManySteps", noted)
    train(configure, kit)
    own_trainer(Last()).train()
    assert fused and similar == [1.2, 1.02]


def test_single_steps_are_kept_if_they_are_faster(fused, monkeypatch):
    monkeypatch.setattr(SpeedTrial, "is_faster", False)
    last = Last()
    own_trainer(last).train()
    assert not fused
    assert last.counters == (STEPS - 1, STEPS, STEPS)


@pytest.mark.parametrize("steps_per_run", [None, 1], ids=["several in a call", "one by one"])
@pytest.mark.parametrize("counted", [False, True], ids=["we count", "the graph counts"])
def test_an_error_within_a_call_leaves_the_counters_of_a_single_step(fused, counted, steps_per_run):
    last = Last()
    trainer = own_trainer(last, steps_per_run=steps_per_run)
    with trainer.graph.as_default():
        count = tf.Variable(0, use_resource=True)
        step = [tf.train.get_or_create_global_step().assign_add(32).op] if counted else []
        trainer.train_op = tf.group(count.assign_add(tf.gather([1] * 33, count)), *step)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 33 is not in \[0, 33\)"):
        trainer.train()
    assert last.counters[:2] == (33, 33)  # of the step that failed, and of those that are done
    if steps_per_run is None or not counted:
        assert last.counters[2] == 33
    assert bool(fused) is (steps_per_run is None)


@pytest.mark.parametrize("steps_per_run", [None, 1], ids=["several in a call", "one by one"])
def test_declared_finite_data_is_used_completely(configure, kit, fused, steps_per_run):
    source = QueueInput(kit.line_data(batches=27), infinite=False)
    trainer = SimpleTrainer(configure(data=source, steps_per_epoch=STEPS, steps_per_run=steps_per_run))
    trainer.train()
    assert (trainer.loop.global_step, trainer.loop.local_step) == (27, 26)
    assert bool(sum(fused)) is (steps_per_run is None)


class HandlerError(Exception):
    """The error of a user's signal handler."""


class Alarm(Callback):
    """Has the process interrupted some time after the first step."""

    def __init__(self, seconds):
        self.seconds = seconds

    def _before_train(self):
        threading.Thread(target=self._start, daemon=True).start()

    def _start(self):
        while not self.trainer.loop.global_step:
            time.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("steps_per_run", [None, 1], ids=["several in a call", "one by one"])
def test_an_error_in_a_handler_leaves_exact_counters(fused, steps_per_run):
    def interrupt(number, frame):
        raise HandlerError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for seconds in (0.100, 0.121, 0.142):
            last = Last()
            trainer = own_trainer(Alarm(seconds), last, steps_per_epoch=10**9, steps_per_run=steps_per_run)
            with pytest.raises(HandlerError):
                trainer.train()
            assert last.counters[1] == last.counters[2] > 0
    finally:
        signal.signal(signal.SIGALRM, before)


def own_trainer(*callbacks, make_step=None, steps_per_epoch=STEPS, steps_per_run=None):
    """A training of a custom graph that counts its steps."""
    trainer = Trainer(
        steps_per_epoch=steps_per_epoch,
        max_epoch=1,
        callbacks=list(callbacks),
        extra_callbacks=[],
        monitors=[],
        log_dir=None,
        steps_per_run=steps_per_run,
    )
    with trainer.graph.as_default():
        variable = tf.Variable(0.0, use_resource=True)
        trainer.train_op = variable.assign_add(1.0).op if make_step is None else make_step()
    return trainer


@pytest.mark.timeout(180)
def test_a_callback_with_a_period_in_seconds_is_triggered(fused):
    with pytest.raises(KeyError, match="mine"):
        own_trainer(Fail(), steps_per_epoch=10**12).train()
    assert max(fused) > 100


@pytest.fixture
def as_in_a_shell():
    """Installs Python's own handlers, since background jobs of a shell ignore Ctrl-C."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Wait(Callback):
    """Holds the training at a step until another thread is done."""

    def __init__(self, done):
        self.done = done

    def step_period(self):
        return Every(steps=15 * STEPS)

    def _trigger_step(self):
        assert self.done.wait(50)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("as_in_a_shell")
@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_saves_and_the_resumed_run_is_exact(configure, kit, fused, tmp_path, number, kind):
    whole = train(configure, kit, steps_per_run=1, max_epoch=16)
    sent, run = threading.Event(), {"max_epoch": 16, "log_dir": tmp_path / "stopped"}

    def interrupt():
        while sum(fused) < 100:
            threading.Event().wait(0.0005)
        os.kill(os.getpid(), number)
        sent.set()

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(kind):
        train(configure, kit, [Wait(sent), ModelSaver()], **run)
    sender.join()
    saved = read_checkpoint(run["log_dir"])
    assert 100 <= saved.variables["global_step"] == saved.state["loop"]["global_step"] <= 15 * STEPS
    kit.assert_same(whole, train(configure, kit, [ModelSaver()], resume="auto", **run))


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("as_in_a_shell")
def test_a_signal_stops_it(fused):
    def interrupt():
        while not fused:
            threading.Event().wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        own_trainer(steps_per_epoch=10**9).train()
    sender.join()


def counting_data():
    """A step that may wait for data."""
    dataset = tf.data.Dataset.from_tensors(1.0).repeat()
    return tf.Variable(0.0, use_resource=True).assign_add(dataset.make_one_shot_iterator().get_next()).op


@pytest.mark.timeout(300)
def test_a_call_ends_in_time_if_the_clock_is_set_back(fused, monkeypatch):
    """By a second, at each reading."""
    clocks = []

    def timestamp(name=None):
        with tf.init_scope(), tf.control_dependencies(None):
            clocks.append(tf.Variable(0.0, dtype=tf.float64, use_resource=True))
        return clocks[0].assign_sub(1.0, read_value=True)

    monkeypatch.setattr(tf, "timestamp", timestamp)
    seconds = []

    class Times(Callback):
        def step_period(self):
            return Every(seconds=0.3)

        def _before_train(self):
            self.since = time.monotonic()

        def _trigger_step(self):
            seconds.append(time.monotonic() - self.since)
            self.since = time.monotonic()
            if len(seconds) == 5:
                raise StopTraining("enough")

    own_trainer(Times(), make_step=counting_data, steps_per_epoch=10**9).train()
    assert clocks and max(fused) < 100_000 and max(seconds) < 5


def test_a_clock_that_is_set_forward_ends_the_call_at_once(fused, monkeypatch):
    def timestamp(name=None):
        return tf.Variable(0.0, dtype=tf.float64, use_resource=True).assign_add(1.0, read_value=True)

    monkeypatch.setattr(tf, "timestamp", timestamp)
    last = Last()
    own_trainer(last, make_step=counting_data).train()
    assert last.counters == (STEPS - 1, STEPS, STEPS) and max(fused) <= 1


def test_steps_that_wait_for_nothing_read_no_clock(fused, monkeypatch):
    monkeypatch.delattr(tf, "timestamp")
    last = Last()
    own_trainer(last).train()
    assert last.counters == (STEPS - 1, STEPS, STEPS) and max(fused) > 1


def test_the_number_of_steps_in_a_call_follows_their_time(monkeypatch):
    clock, step, made = [0.0], 0.0, []
    monkeypatch.setattr(_fused_steps.time, "perf_counter", lambda: clock[0])

    def call(limit):
        made.append(limit)
        clock[0] += step * limit
        return [limit]

    steps = _fused_steps._ManySteps([call], 1, 1.02)

    def makes(seconds, count=1):
        nonlocal step
        step = seconds
        for _ in range(count):
            if not steps(10**9):
                clock[0] += seconds
        return made[-1] if made else None

    assert makes(2**-6, SpeedTrial.SINGLES + 1) is None
    assert makes(2**-6) == 4  # of ten steps in the trial of shorter ones
    makes(2**-10, 20)
    assert steps._trial.is_faster
    times = [2**-10, 2**-7, 2**-13, 2**-16, 2**-3, 2**-3]
    assert [makes(seconds) for seconds in times] == [52, 52, 7, 410, 3277, 4]  # each fills 0.05 s


@pytest.mark.parametrize(
    ("changes", "fuses"),
    [
        ({}, True),
        ({"session_config": tf.ConfigProto(operation_timeout_in_ms=10_000)}, False),
        ({"stall_seconds": 0.2}, False),
    ],
    ids=["by default", "a limit on each call", "a stall is soon noticed"],
)
def test_options_that_exclude_calls_of_several_steps(configure, changes, fuses):
    assert tells_of_fusing(SimpleTrainer(configure(steps_per_epoch=1000, **changes))) is fuses


def test_a_graph_too_large_to_be_serialised_runs_step_by_step(fused, monkeypatch):
    def refuse(self, *_, **__):
        raise ValueError("GraphDef cannot be larger than 2GB.")

    last = Last()
    trainer = own_trainer(last)
    with monkeypatch.context() as patch:
        patch.setattr(tf.Graph, "as_graph_def", refuse)
        trainer.explain()
    trainer.train()
    assert last.counters == (STEPS - 1, STEPS, STEPS) and not fused


def test_the_choice_is_repeated(calls, monkeypatch):
    """A busy moment does not fix the slower mode: later trials find the faster one."""
    verdicts = iter([False, True])
    monkeypatch.setattr(SpeedTrial, "SINGLES", 0)

    class Decided(SpeedTrial):
        is_faster = property(lambda trial: trial.verdict)

        def __init__(self, ways, similar):
            super().__init__(ways, similar)
            self.verdict = next(verdicts, True)

    monkeypatch.setattr(_fused_steps, "SpeedTrial", Decided)
    last = Last()
    own_trainer(last, steps_per_epoch=3000).train()
    assert 0 < sum(calls) <= 2000
    assert last.counters == (2999, 3000, 3000)


@pytest.mark.timeout(180)
def test_a_call_ends_in_time_however_slow_the_steps_are(fused):
    def step_of_some_milliseconds():
        matrix = tf.Variable(tf.ones([600, 600]), use_resource=True)
        count = tf.Variable(0, use_resource=True)
        product = tf.linalg.matmul(matrix, matrix)
        return count.assign_add(tf.cast(product[0, 0] / 600, tf.int32)).op

    own_trainer(make_step=step_of_some_milliseconds, steps_per_epoch=200).train()
    assert len(fused) > 1  # a call on a busy machine may not make any step
    assert max(fused) < 198  # the steps before the epoch's last


def compared(singles, calls):
    """Gives a trial the times of single steps, in seconds, and of calls of ten; returns its decision."""
    trial = SpeedTrial()
    singles, calls = itertools.cycle(singles), itertools.cycle(calls)
    while not trial.has_singles:
        assert trial.is_faster is None
        trial.note_single(next(singles))
    trial.note_several(1.0, 1)  # TensorFlow prepares its first call
    trial.note_several(1.0, 1)
    trial.note_several(0.1, 0)  # a call that ended before its first step
    while trial.is_faster is None:
        trial.note_several(next(calls), 10)
    return trial.is_faster


@pytest.mark.parametrize("seconds", [0.0009, 0.0011])
def test_the_faster_way_is_kept(seconds):
    assert compared([0.001], [10 * seconds]) is (seconds < 0.001)


def test_several_steps_in_a_call_are_kept_if_the_data_limit_both_ways():
    assert compared([0.001], [0.01001]) is True


def test_a_busy_machine_does_not_decide():
    """Most calls were interrupted, but one was not."""
    assert compared([0.001], [0.1, 0.2, 0.1, 0.009]) is True
    assert compared([0.001] * 10 + [0.1] * 20, [0.012]) is False


@pytest.mark.parametrize("fastest", [0, 1])
def test_the_fastest_of_two_ways_is_kept(fastest):
    seconds, trial = [0.02, 0.02], SpeedTrial(2)
    seconds[fastest] = 0.005
    while trial.is_faster is None:
        if trial.has_singles:
            trial.note_several(seconds[trial.next_way], 10)
        else:
            trial.note_single(0.001)
    assert trial.is_faster and trial.fastest_way == fastest


def test_long_steps_are_not_compared():
    trial = SpeedTrial()
    while trial.is_faster is None:
        trial.note_single(0.1)
    assert trial.is_faster is False
