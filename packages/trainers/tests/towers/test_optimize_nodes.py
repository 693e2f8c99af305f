"""Optimised copies of a step order updates by variable and know shapes, with the same results."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers.towers._copies_of_step import StepCopies
from towerpack_trainers.towers._objective import gate_gradients


class Net:
    """Two layers on a constant batch, with weight decay, and the step that trains them.

    Args:
        optimizer: makes the updates.
        after: makes an op that the updates must wait for, of the weights.
    """

    def __init__(self, optimizer, after=None):
        random = np.random.default_rng(3)
        self.x = tf.constant(random.normal(size=(4, 6)), tf.float32, name="x")
        self.weights = [
            tf.Variable(random.normal(size=shape), dtype=tf.float32, use_resource=True, name=f"w{number}")
            for number, shape in enumerate([(6, 5), (5, 1)])
        ]
        first, second = self.weights
        self.cost = tf.reduce_sum(tf.tanh(self.x @ first, "hidden") @ second) ** 2
        rows = tf.raw_ops.Shape(input=second)[0]
        self.cost += tf.cast(rows, tf.float32) * tf.nn.l2_loss(second)
        gradients = list(zip(tf.gradients(self.cost, self.weights), self.weights))
        self.gradients = [gradient.op.name for gradient, _ in gradients]
        others = [] if after is None else [after(self.weights)]
        self.step = optimizer.apply_gradients(gate_gradients(gradients, others))


def nodes_of(outputs, optimize=True):
    """Returns the nodes of the copies, by name."""
    return {node.name: node for node in StepCopies(outputs, optimize=optimize)._definition.node}


def ancestors(nodes, name):
    """Returns the names of all nodes that one depends on."""
    found, waiting = set(), [name]
    while waiting:
        inputs = {each.removeprefix("^").partition(":")[0] for each in nodes[waiting.pop()].input}
        waiting += (inputs & nodes.keys()) - found
        found |= inputs & nodes.keys()
    return found


def updates_of(nodes):
    """Returns the names of the updates, by variable."""
    return {node.input[0]: node.name for node in nodes.values() if node.op.startswith("ResourceApply")}


def after_steps(make, optimize, steps=5):
    """Returns the values of fetches after some steps in a loop."""
    with tf.Graph().as_default(), tf.Session() as session:
        step, fetches = make()
        done = StepCopies([step], optimize=optimize).loop(lambda done: done < steps, "steps")
        session.run(tf.global_variables_initializer())
        session.run(done)
        return session.run(fetches)


def assert_same(make):
    """Compares the fetches of optimised copies with those of others, to the last bit."""
    for one, other in zip(after_steps(make, True), after_steps(make, False)):
        np.testing.assert_array_equal(one, other)


def test_an_update_waits_only_for_the_ops_that_read_its_variable():
    with tf.Graph().as_default():
        net = Net(tf.train.GradientDescentOptimizer(0.1))
        nodes = nodes_of([net.step])
    first, second = net.gradients
    updates = updates_of(nodes)
    assert first in ancestors(nodes, updates["w0"])
    # The gradient of the first layer reads the second weight, whose update needs no gradient of the first.
    before = ancestors(nodes, updates["w1"])
    reads = {node.name for node in nodes.values() if node.op == "ReadVariableOp" and node.input[0] == "w1"}
    takers = {node.name for node in nodes.values() if reads & set(node.input)}
    assert len(takers) >= 3 and takers <= before
    assert second in before and first not in before
    assert not any(node.op in {"Shape", "ShapeN", "NoOp"} for node in map(nodes.get, before))


@pytest.mark.parametrize("of_slot", [False, True])
def test_another_op_that_reads_the_variable_or_its_slot_comes_before_the_update(of_slot):
    with tf.Graph().as_default():
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        net = Net(optimizer)
        weight = net.weights[1]
        norm = tf.norm(optimizer.get_slot(weight, "momentum") if of_slot else weight, name="norm")
        nodes = nodes_of([net.step, norm])
    reads = {name for name in ancestors(nodes, norm.op.name) if nodes[name].op == "ReadVariableOp"}
    assert reads and reads <= ancestors(nodes, updates_of(nodes)["w1"])


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.1),
    ],
)
def test_the_results_are_the_same(optimizer):
    def make():
        net = Net(optimizer())
        average = tf.Variable(0.0, use_resource=True)
        averaged = average.assign(0.9 * average + 0.1 * (net.cost + tf.norm(net.weights[1])))
        return tf.group(net.step, averaged), [*net.weights, average]

    assert_same(make)


def test_ops_before_all_updates_stay_there():
    with tf.Graph().as_default():
        net = Net(
            tf.train.GradientDescentOptimizer(0.1),
            after=lambda weights: tf.identity(weights[0], name="seen").op,
        )
        nodes = nodes_of([net.step])
    for update in updates_of(nodes).values():
        assert "seen" in ancestors(nodes, update)


def test_a_read_after_the_update_stays_there():
    def make():
        net = Net(tf.train.GradientDescentOptimizer(0.1))
        copy = tf.Variable(tf.zeros([5, 1]), use_resource=True)
        with tf.control_dependencies([net.step]):
            copied = copy.assign(net.weights[1].read_value())
        return copied.op, [copy, net.weights[1]]

    assert_same(make)
    copied, weight = after_steps(make, optimize=True)
    np.testing.assert_array_equal(copied, weight)


def test_an_update_before_a_gradient_keeps_the_gate():
    with tf.Graph().as_default():
        net = Net(tf.train.GradientDescentOptimizer(0.1))
        with tf.control_dependencies([net.step]):
            cost = tf.reduce_sum(net.x @ net.weights[0].read_value()) ** 2
        [gradient] = tf.gradients(cost, net.weights[:1])
        gated = gate_gradients([(gradient, net.weights[0])])
        second = tf.train.GradientDescentOptimizer(0.1).apply_gradients(gated)
        nodes = nodes_of([second])
        [update] = [op.name for op in second.control_inputs] or [second.name]
    gate = nodes[nodes[update].input[-1].partition(":")[0]]
    assert gate.op == "Identity" and any(name.startswith("^") for name in gate.input)


def test_a_handle_behind_another_op_keeps_the_gate():
    with tf.Graph().as_default():
        net = Net(tf.train.GradientDescentOptimizer(0.1))
        behind = tf.raw_ops.ReadVariableOp(resource=tf.identity(net.weights[1].handle), dtype=tf.float32)
        nodes = nodes_of([net.step, behind])
    assert net.gradients[0] in ancestors(nodes, updates_of(nodes)["w1"])


def test_a_step_on_several_devices_keeps_the_gate():
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            net = Net(tf.train.GradientDescentOptimizer(0.1))
        with tf.device("/cpu:1"):
            elsewhere = tf.tanh(net.cost)
        nodes = nodes_of([net.step, elsewhere])
    assert net.gradients[0] in ancestors(nodes, updates_of(nodes)["w1"])


def test_loops_of_tensorflow_1_remain():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.disable_control_flow_v2()
        try:
            count = tf.while_loop(lambda n: n < 7, lambda n: n + 3, [tf.constant(0)])
        finally:
            tf.enable_control_flow_v2()
        [copy] = StepCopies([count + tf.raw_ops.Shape(input=tf.zeros([2]))], optimize=True).once("copy")
        assert session.run(copy).tolist() == [11]


def test_known_shapes_are_constants():
    with tf.Graph().as_default(), tf.Session() as session:
        known = tf.placeholder_with_default(tf.zeros([2, 3]), [2, 3])
        unknown = tf.placeholder_with_default(tf.zeros([4]), [None])
        scalar = tf.placeholder_with_default(0.0, [])
        shapes = tf.raw_ops.ShapeN(input=[known, known + 1])
        alone = [tf.raw_ops.Shape(input=each, out_type=tf.int64) for each in (unknown, scalar)]
        total = tf.concat([*(tf.cast(each, tf.int64) for each in shapes), *alone], 0)
        copies = StepCopies([total], optimize=True)
        kinds = [node.op for node in copies._definition.node]
        assert "ShapeN" not in kinds and kinds.count("Shape") == 1 and kinds.count("Const") >= 3
        [copy] = copies.once("copy")
        assert session.run(copy).tolist() == [2, 3, 2, 3, 4]


def test_a_shape_that_is_an_output_remains():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder_with_default(tf.zeros([2, 3]), [2, 3])
        shape = tf.raw_ops.Shape(input=x, name="shape")
        outputs = StepCopies([shape, shape + 1], optimize=True).once("copy")
        assert [value.tolist() for value in session.run(outputs)] == [[2, 3], [3, 4]]


def test_a_replaced_tensor_of_which_only_the_shape_was_taken_needs_no_value():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder_with_default(tf.zeros([2, 3]), [2, 3])
        total = tf.raw_ops.Shape(input=x) + 1
        copies = StepCopies([total], [x], optimize=True)
        [copy] = copies.once("copy", lambda number: [tf.ones([2, 3])])
        assert session.run(copy).tolist() == [3, 4]
