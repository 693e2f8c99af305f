"""One step with the fetches of callbacks: planned once, requested, delivered and counted."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    Every,
    HookToCallback,
    LoopState,
    StepCounter,
    StepFetch,
    StepPlan,
    StepRunner,
    StopTraining,
)

TRACING = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


class Loop:
    """A custom loop on a graph that multiplies a fed number."""

    is_chief = True

    def __init__(self, *callbacks, steps_per_epoch=100):
        self.loop = LoopState(steps_per_epoch=steps_per_epoch)
        self.callbacks = Callbacks(callbacks)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.number = tf.placeholder_with_default(2.0, [], "number")
            self.double = tf.multiply(self.number, 2.0, "double")
            self.triple = tf.multiply(self.number, 3.0, "triple")
            self._counter = StepCounter(self.graph)
            self.callbacks.setup_graph(self)
        self.sess = tf.Session(graph=self.graph)

    def __enter__(self):
        with self.graph.as_default():
            self.sess.run(tf.global_variables_initializer())
        self.callbacks.before_train()
        return StepRunner(self.sess, self.callbacks, self.loop, self._counter)

    def __exit__(self, *_):
        self.sess.close()

    @property
    def counted(self):
        return self._counter.value(self.sess)


class Fetch(Callback):
    """Fetches a tensor at a period, with the step that was counted when its value came."""

    def __init__(self, name, every, options=None):
        self.name, self.every, self.options, self.seen = name, every, options, []

    def step_fetches(self):
        tensor = self.trainer.graph.get_tensor_by_name(f"{self.name}:0")
        return [StepFetch(tensor, self._receive, self.every, self.options)]

    def _receive(self, value):
        self.seen.append((self.global_step, value))


class Choose(Callback):
    """Chooses fetches, feeds and options at each step."""

    def __init__(self, fetches=None, number=None, options=None):
        self.fetches, self.number, self.options, self.results = fetches, number, options, []

    def _before_run(self, context):
        feeds = None if self.number is None else {self.trainer.number: self.number}
        return tf.train.SessionRunArgs(self.fetches, feeds, self.options)

    def _after_run(self, context, run_values):
        self.results.append(run_values)


def test_a_step_returns_its_values_and_is_counted():
    loop = Loop()
    with loop as steps:
        assert steps.run(loop.double) == 4.0
        assert steps.run({"both": (loop.double, [loop.triple])}) == {"both": (4.0, [6.0])}
        assert steps.run(loop.double.op) is None
        assert (loop.loop.global_step, loop.counted) == (3, 3)


def test_due_fetches_come_after_the_step_is_counted():
    often, seldom = Fetch("double", Every(steps=1)), Fetch("triple", Every(steps=2))
    loop = Loop(often, seldom)
    with loop as steps:
        for number in (1.0, 2.0, 3.0, 4.0):
            steps.run([], {loop.number: number})
    assert often.seen == [(1, 2.0), (2, 4.0), (3, 6.0), (4, 8.0)]
    assert seldom.seen == [(2, 6.0), (4, 12.0)]


def test_one_callable_for_each_set_of_fetches(monkeypatch):
    made = []
    make_callable = tf.Session.make_callable

    def noted(self, fetches, *args, **kwargs):
        made.append(fetches)
        return make_callable(self, fetches, *args, **kwargs)

    loop = Loop(Fetch("double", Every(steps=2)), Fetch("triple", Every(steps=3)))
    monkeypatch.setattr(tf.Session, "make_callable", noted)
    with loop as steps:
        for _ in range(12):
            steps.run(loop.number)
    # The counter, and the sets: nothing; 2; 3; 2 and 3.
    assert len(made) == 1 + 4


def test_callbacks_choose_at_each_step():
    fetching, feeding = Choose("triple:0"), Choose(number=5.0)
    loop = Loop(fetching, feeding, Fetch("double", Every(steps=1)))
    with loop as steps:
        assert [steps.run(loop.double), steps.run(loop.double, {loop.triple: 0.0})] == [10.0, 10.0]
    assert [values.results for values in fetching.results] == [15.0, 0.0]
    assert [values.results for values in feeding.results] == [[], []]


def test_options_of_all_are_merged_and_metadata_comes_back():
    choose = Choose("triple:0", options=tf.RunOptions(timeout_in_ms=60_000))
    fetch = Fetch("double", Every(steps=2), TRACING)
    loop = Loop(choose, fetch)
    with loop as steps:
        steps.run([])
        steps.run([])
    merged = tf.RunOptions(timeout_in_ms=60_000, trace_level=tf.RunOptions.FULL_TRACE)
    assert [values.options for values in choose.results] == [choose.options, merged]
    [(step, (value, metadata))] = fetch.seen
    assert (step, value) == (2, 4.0) and metadata.step_stats.dev_stats


def test_a_hook_that_requests_a_stop_ends_the_step_first():
    loop = Loop(HookToCallback(tf.train.StopAtStepHook(num_steps=2)))
    loop.coord = tf.train.Coordinator()
    with loop as steps:
        steps.run([])
        with pytest.raises(StopTraining, match="a session hook requested a stop"):
            steps.run([])
        assert (loop.loop.global_step, loop.counted) == (2, 2)


def test_a_step_that_fails_is_not_counted():
    loop = Loop(fetch := Fetch("double", Every(steps=1)))
    with loop as steps:
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            steps.run([], {loop.number: [1.0, 2.0]})
        assert (loop.loop.global_step, loop.counted, fetch.seen) == (0, 0, [])


def test_a_loop_that_calls_the_session_itself_uses_the_two_halves():
    choose, fetch = Choose("triple:0", number=1.0), Fetch("double", Every(steps=1))
    loop = Loop(choose, fetch)
    with loop as steps:
        request = steps.request(tf.train.SessionRunContext(None, loop.sess))
        assert fetch.seen == [] and request.options is None
        results = loop.sess.run(request.fetches, request.feeds)
        steps.deliver(request, tf.train.SessionRunValues(results, None, None))
        assert (loop.loop.global_step, loop.counted) == (1, 1)
    assert fetch.seen == [(1, 2.0)]
    assert [values.results for values in choose.results] == [3.0]


def test_equal_sets_of_fetches_have_one_plan():
    callbacks = Loop(Fetch("double", Every(steps=2)), Fetch("triple", Every(epochs=1))).callbacks
    sets = [callbacks.due_fetches(step, 1, False) for step in (1, 2, 3, 4)]
    plans = [callbacks.plan(due) for due in sets]
    assert plans[0] is plans[2] and plans[1] is plans[3] and plans[0] is not plans[1]
    assert [[tensor.name for tensor in plan.fetches] for plan in plans[:2]] == [[], ["double:0"]]


def test_a_plan_keys_a_cache_and_is_made_of_what_is_due_alone():
    fetch = StepFetch("x:0")
    one, other = StepPlan((fetch,)), StepPlan((fetch,))
    assert {one: 1, other: 2} == {one: 1, other: 2} and one != other
    assert one.fetches == ["x:0"] and one.options is None
    for made in ("fetches", "options"):
        with pytest.raises(TypeError, match=made):
            StepPlan((fetch,), **{made: None})


def test_a_plan_delivers_values_to_their_receivers():
    seen = []
    traced = StepFetch("traced", lambda pair: seen.append(("traced", *pair)), options=TRACING)
    plan = StepPlan((StepFetch("a", seen.append), StepFetch("effect"), traced))
    assert plan.fetches == ["a", "effect", "traced"] and plan.options == TRACING
    plan.deliver([1, None, 3], "metadata")
    assert seen == [1, ("traced", 3, "metadata")]


def test_the_halves_of_callbacks_do_the_same():
    """`Callbacks` has them for loops that were written before there was a runner."""
    fetch, choose = Fetch("double", Every(steps=1), TRACING), Choose("triple:0")
    loop = Loop(fetch, choose)
    with loop:
        due = loop.callbacks.due_fetches(1, 1, False)
        [args] = loop.callbacks.before_run(None)
        assert loop.callbacks.run_options(due, [args]) == TRACING
        loop.callbacks.receive(due, [4.0], "metadata")
        loop.callbacks.after_run(None, ["values"])
    assert fetch.seen == [(0, (4.0, "metadata"))] and choose.results == ["values"]


def test_a_step_may_fetch_nothing():
    with Loop() as runner:
        assert runner.run([]) == []
        assert runner.run([]) == []
