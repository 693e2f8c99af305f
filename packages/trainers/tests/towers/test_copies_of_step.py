"""Copies of a step read a variable once where the order allows it, and have the effect of the step."""

import tensorflow.compat.v1 as tf

from towerpack_trainers.towers._copies_of_step import StepCopies


def reads_in(copies):
    """Returns how many reads the copied step has."""
    return sum(node.op == "ReadVariableOp" for node in copies._definition.node)


def variable(value):
    return tf.Variable(value, use_resource=True)


def after(op, variable):
    """A read that waits for another op."""
    with tf.control_dependencies([op]):
        return variable.read_value()


def test_reads_without_an_order_are_one():
    with tf.Graph().as_default(), tf.Session() as session:
        rate, weights = variable(0.5), [variable(float(n)) for n in range(3)]
        step = tf.group(*(weight.assign_sub(rate.read_value()) for weight in weights))
        copies = StepCopies([step])
        assert reads_in(copies) == 1
        done = copies.loop(lambda done: done < 4, "steps")
        session.run(tf.global_variables_initializer())
        session.run(done)
        assert session.run(weights) == [-2.0, -1.0, 0.0]


def test_reads_before_and_after_a_write_differ():
    with tf.Graph().as_default(), tf.Session() as session:
        count, before, later = variable(0), variable(0), variable(0)
        was = count.read_value()
        with tf.control_dependencies([was]):
            counted = count.assign_add(1, read_value=False)
        with tf.control_dependencies([before.assign(was).op]):
            step = tf.group(later.assign(after(counted, count) + 10 * after(counted, count)))
        copies = StepCopies([step])
        assert reads_in(copies) == 2
        done = copies.loop(lambda done: done < 4, "steps")
        session.run(tf.global_variables_initializer())
        session.run(done)
        assert session.run([count, before, later]) == [4, 3, 44]


def test_reads_that_are_fetched_or_that_others_are_placed_with_remain():
    with tf.Graph().as_default():
        rate = variable(0.5)
        first, placed, fetched = (rate.read_value().op.inputs[0].op for _ in range(3))
        with tf.colocate_with(placed):
            beside = tf.identity(first.outputs[0])
        copies = StepCopies([fetched, placed, beside])
        assert reads_in(copies) == 3
        with tf.Session() as session:
            session.run(rate.initializer)
            *_, value = copies.after(tf.no_op(), "copy")
            assert session.run(value) == 0.5
