"""Several costs, each with its variables and optimizer, on one device and on several."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import (
    AsyncMultiGPUBuilder,
    ModelError,
    Objective,
    SimpleTrainer,
    SingleDeviceBuilder,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
    TowerRuleError,
    default_session_config,
)
from towerpack_trainers.optimize import AccumGradOptimizer, VariableAssignmentOptimizer

TWO = ["/cpu:0", "/cpu:1"]

BUILDERS = {
    "single": SingleDeviceBuilder,
    "parameter server": lambda: SyncMultiGPUParameterServerBuilder(TWO),
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(TWO),
    "hierarchical": lambda: SyncMultiGPUReplicatedBuilder(TWO, mode="hierarchical"),
    "async": lambda: AsyncMultiGPUBuilder(TWO),
}
IN_STEP = [name for name in BUILDERS if name != "async"]


def descend(rate=0.1):
    return lambda: tf.train.GradientDescentOptimizer(rate)


def weights(scope, rows=3):
    with tf.variable_scope(scope):
        shape, dtype = [rows], tf.float64
        return tf.get_variable("w", shape, dtype, tf.constant_initializer(np.linspace(0.5, 1.5, rows)))


def game(x, optimizers=None):
    """Two costs of both players, each minimised by one player; variables are looked up by scope."""
    optimizers = optimizers or (descend(), descend(0.02))
    critic, generator = weights("critic"), weights("generator")
    values = tf.reduce_sum(tf.square(x * critic) * generator + critic * x, 1)
    return [
        Objective(-tf.reduce_mean(values), tf.trainable_variables("critic"), optimizers[0]),
        Objective(tf.reduce_mean(values * values), tf.trainable_variables("generator"), optimizers[1]),
    ]


class Batches:
    """Takes batches of a list in turn, inside the graph, one with each run."""

    def __init__(self, values):
        self.values, self.count = tf.constant(values), len(values)
        with tf.variable_scope("batches"):
            self.taken = tf.get_local_variable("taken", [], tf.int32, initializer=tf.zeros_initializer())

    def take(self):
        return [self.values[(self.taken.assign_add(1, read_value=True) - 1) % self.count]]


def data(batches, size, seed=0):
    return np.random.default_rng(seed).normal(size=(batches, size, 3))


class Session(tf.Session):
    """A session with initialised variables."""

    def __init__(self, builder=None):
        super().__init__(config=default_session_config(TWO))
        self.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for hook in builder.hooks() if builder else []:
            hook.after_create_session(self, None)

    def values(self):
        return {variable.op.name: self.run(variable) for variable in tf.global_variables()}


def play(make, values, schedule, function=game):
    """The variables after each run; a schedule has numbers of objectives, or None for all of them."""
    with tf.Graph().as_default():
        builder = make()
        whole = builder.build(function, Batches(values).take)
        with Session(builder) as session:
            history = [session.values()]
            for number in schedule:
                session.run(whole if number is None else builder.updates[number])
                history.append(session.values())
    return history


@pytest.mark.parametrize("name", BUILDERS)
def test_an_objective_trains_only_its_own_variables(name):
    begin, critic, generator, both = play(BUILDERS[name], data(6, 4), [0, 1, None])

    def changed(one, other):
        return {key for key in one if (one[key] != other[key]).any()} - {"global_step"}

    assert changed(begin, critic) == {"critic/w"}
    assert changed(critic, generator) == {"generator/w"}
    assert changed(generator, both) == {"critic/w", "generator/w"}


@pytest.mark.parametrize("name", [name for name in IN_STEP if name != "single"])
def test_two_towers_are_one_with_their_batches(name):
    schedule = [0, 0, 1, None, None, 1, 0]
    values = data(14, 4)
    one = play(SingleDeviceBuilder, values.reshape(7, 8, 3), schedule)
    two = play(BUILDERS[name], values, schedule)
    for mine, theirs in zip(one, two, strict=True):
        for key in ("critic/w", "generator/w"):
            np.testing.assert_allclose(theirs[key], mine[key], rtol=1e-6, err_msg=key)
    assert np.abs(one[-1]["critic/w"] - one[0]["critic/w"]).min() > 1e-3


def read(variable):
    return variable.read_value()


def gather(variable):
    return tf.gather(variable, tf.range(3))


@pytest.mark.parametrize("look", [read, gather])
@pytest.mark.parametrize("name", IN_STEP)
def test_all_gradients_use_the_values_from_before_the_step(name, look):
    """Even if the first cost's update could run long before the second cost reads the changed variables."""

    def function(x):
        first, second = weights("critic"), weights("generator")
        late = tf.ones([400, 400], tf.float64) * tf.reduce_sum(x)
        for _ in range(5):
            late = tf.tanh(tf.matmul(late, late))
        with tf.control_dependencies([late]):
            seen = look(first)
        return [
            Objective(tf.reduce_sum(first), tf.trainable_variables("critic"), descend(1.0)),
            Objective(tf.reduce_sum(seen * second), tf.trainable_variables("generator"), descend(1.0)),
        ]

    history = play(BUILDERS[name], data(8, 1), 4 * [None], function)
    for before, after in itertools.pairwise(history):
        np.testing.assert_allclose(before["critic/w"] - after["critic/w"], 1)
        np.testing.assert_allclose(before["generator/w"] - after["generator/w"], before["critic/w"])


def test_each_run_takes_a_new_batch():
    """With a cost linear in the weights, each step shows the mean of its batch."""

    def function(x):
        mean = tf.reduce_mean(x, 0)
        return [
            Objective(tf.reduce_sum(mean * weights(scope)), tf.trainable_variables(scope), descend(1.0))
            for scope in ("critic", "generator")
        ]

    values = data(5, 2)
    history = play(SingleDeviceBuilder, values, [0, 0, 0, 1, None], function)
    steps = [
        {key: before[key] - after[key] for key in before} for before, after in itertools.pairwise(history)
    ]
    for number in (0, 1, 2, 4):
        np.testing.assert_allclose(steps[number]["critic/w"], values[number].mean(0))
    for number in (3, 4):
        np.testing.assert_allclose(steps[number]["generator/w"], values[number].mean(0))


def test_an_optimizer_is_made_once_and_serves_all_towers():
    made = []

    def make():
        made.append(tf.get_default_graph().get_name_scope())
        return tf.train.AdamOptimizer(0.1)

    history = play(
        lambda: SyncMultiGPUParameterServerBuilder(TWO), data(4, 2), [0], lambda x: game(x, (make, descend()))
    )
    assert made == [""]
    assert {"critic/w/Adam", "critic/w/Adam_1", "beta1_power", "beta2_power"} <= set(history[0])
    assert not [name for name in history[0] if name.startswith("generator/w/")]


@pytest.mark.parametrize("name", IN_STEP)
def test_optimizers_that_can_be_applied_only_once(name):
    """Training one objective and all of them uses the same updates, so state is made once."""

    def clipped():
        return VariableAssignmentOptimizer(descend(10.0)(), lambda w: tf.clip_by_value(w, -0.01, 0.01))

    def slow():
        return AccumGradOptimizer(descend()(), 2)

    history = play(BUILDERS[name], data(8, 4), [0, 1, None, None], lambda x: game(x, (clipped, slow)))
    assert np.abs(history[1]["critic/w"]).max() <= 0.01
    for number, moved in ((2, False), (3, True), (4, False)):
        assert (history[number]["generator/w"] != history[number - 1]["generator/w"]).all() == moved


def test_one_objective_is_a_cost_and_an_optimizer():
    def cost(x):
        return tf.reduce_mean(tf.square(x * weights("line")))

    def objective(x):
        return Objective(cost(x), None, descend())

    values, ends = data(3, 4), []
    for function, optimizer in ((cost, descend()), (objective, None)):
        with tf.Graph().as_default():
            builder = SingleDeviceBuilder()
            train_op = builder.build(function, Batches(values).take, optimizer)
            assert builder.updates == [train_op]
            assert train_op.name == "train_op"
            with Session() as session:
                session.run(train_op)
                ends.append(session.values())
    np.testing.assert_array_equal(ends[0]["line/w"], ends[1]["line/w"])


def test_variables_without_an_objective_or_without_effect_are_named(caplog):
    def function(x):
        weights("free"), weights("idle")
        objectives = game(x)
        both = [*tf.trainable_variables("critic"), *tf.trainable_variables("idle")]
        return [Objective(objectives[0].cost, both, descend()), objectives[1]]

    with tf.Graph().as_default():
        SyncMultiGPUParameterServerBuilder(TWO).build(function, Batches(data(1, 1)).take)
    assert "These variables belong to no objective and are not trained: free/w." in caplog.messages
    assert "The cost 'tower0/Neg' does not depend on: idle/w. They are not trained." in caplog.messages
    assert len(caplog.messages) == 2


def variable():
    return tf.get_variable("w", [])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Objective(0.5, None, descend()),
            ModelError,
            r"takes the cost, a scalar tensor; received 0.5",
        ),
        (
            lambda: Objective(None, None, descend()),
            ModelError,
            "a scalar tensor; received None of type NoneT",
        ),
        (
            lambda: Objective(tf.ones([2]), None, descend()),
            ModelError,
            r"takes a scalar cost; .*shape \(2,\)",
        ),
        (lambda: Objective(tf.constant(1), None, descend()), ModelError, "has dtype int32; expected a float"),
        (lambda: Objective(tf.ones([]), [], descend()), ModelError, "received no variable.*Does the scope"),
        (lambda: Objective(tf.ones([]), ["w"], descend()), ModelError, r"\('w',\); expected a list of vari"),
        (lambda: Objective(tf.ones([]), variable(), descend()), ModelError, "expected a list of variables"),
        (
            lambda: Objective(tf.ones([]), None, 0.1),
            TypeError,
            "optimizer=0.1 of type float: expected a tf.t",
        ),
    ],
)
def test_objects_that_are_not_objectives(make, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        make()


def no_optimizer():
    return "adam"


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: None, ModelError, r"must return an Objective or a list of them; received None"),
        (lambda x: [], ModelError, r"must return an Objective or a list of them; received \[\]"),
        (
            lambda x: tf.reduce_mean(x),
            ModelError,
            r"Without optimizer=.*Write Objective\(cost, variables, opt",
        ),
        (lambda x: [*game(x), 1.0], ModelError, "must return an Objective or a list of them"),
        (lambda x: game(x, (no_optimizer, descend())), TypeError, "optimizer='adam' of type str"),
        (
            lambda x: Objective(tf.reduce_sum(x * weights("a")), [tf.Variable(1.0, name="own")], descend()),
            TowerRuleError,
            "made its own variable 'tower0/own'",
        ),
        (
            lambda x: Objective(
                tf.reduce_sum(x * weights("a")), [tf.get_variable("ema", [], trainable=False)], descend()
            ),
            ModelError,
            "names ema, which tower 0 does not have among its trainable variables: a/w",
        ),
        (
            lambda x: [game(x)[0], Objective(tf.reduce_mean(x), game(x)[1].variables, descend())],
            ModelError,
            "The cost 'tower0/Mean_2' depends on no trainable variable",
        ),
    ],
)
def test_the_return_value_of_a_tower_function(function, error, message):
    def reusing(x):
        with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
            return function(x)

    with tf.Graph().as_default(), pytest.raises(error, match=message):
        SyncMultiGPUParameterServerBuilder(TWO).build(reusing, Batches(data(1, 1)).take)


def test_towers_have_the_same_objectives():
    calls = []

    def function(x):
        calls.append(x)
        return game(x)[: len(calls)]

    with (
        tf.Graph().as_default(),
        pytest.raises(TowerRuleError, match="Tower 1 has 2 objectives, and tower 0"),
    ):
        SyncMultiGPUParameterServerBuilder(TWO).build(function, Batches(data(1, 1)).take)


def test_reference_variables():
    def function(x):
        with tf.variable_scope("", use_resource=False):
            return game(x)

    with tf.Graph().as_default(), pytest.raises(ModelError, match="'critic/w' is a reference variable"):
        SingleDeviceBuilder().build(function, Batches(data(1, 1)).take)


def test_a_trainer_of_one_cost_takes_no_objectives(kit, configure):
    class Model(kit.Line):
        def build_graph(self, x, y):
            return Objective(super().build_graph(x, y), None, descend())

    with pytest.raises(ModelError, match=r"returned objectives.*trainers of one cost, such as SimpleTrainer"):
        SimpleTrainer(configure(model=Model()))
