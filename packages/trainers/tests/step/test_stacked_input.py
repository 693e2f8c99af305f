"""Several steps take their datapoints from a queue at once, and each sees what it would have taken itself."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.step._stacked_input import StackedInput
from towerpack_trainers.towers._copies_of_step import StepCopies

DTYPES = ["uint8", "int32", "int64", "float16", "float32", "float64", "bool", "complex64"]


def loop_over(queue, step, fewest=4, limit=16):
    """Returns an op that makes several steps with stacked input, and their number."""
    stacked = StackedInput.of(StepCopies([step]).ops)
    assert stacked is not None
    copies = StepCopies([step], stacked.replaced)
    stacked.take(fewest, tf.constant(limit))
    return stacked.release(copies.loop(stacked.goes_on, "steps", stacked.of_iteration))


def recording(queue, count):
    """Returns a step that appends its datapoint, and the size of the queue after it, to variables."""
    datapoint = queue.dequeue()
    datapoint = datapoint if isinstance(datapoint, list) else [datapoint]
    number = tf.Variable(0, use_resource=True)
    with tf.control_dependencies(datapoint):
        size = queue.size()
    found = [
        tf.Variable(tf.zeros([count, *tensor.shape], tensor.dtype), use_resource=True)
        for tensor in [*datapoint, size]
    ]
    updates = [tf.scatter_update(each, number, tensor) for each, tensor in zip(found, [*datapoint, size])]
    with tf.control_dependencies(updates):
        return number.assign_add(1).op, found, number


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(1, 3), max_size=3)), min_size=1, max_size=3
    ),
    st.integers(1, 40),
    st.integers(4, 20),
)
def test_each_step_sees_its_datapoint_and_the_queue_after_it(components, count, limit):
    draw = np.random.default_rng(0)
    stacks = [draw.integers(0, 2, [count, *shape]).astype(dtype) for dtype, shape in components]
    with tf.Graph().as_default(), tf.Session() as session:
        dtypes, shapes = zip(*((tf.as_dtype(stack.dtype), stack.shape[1:]) for stack in stacks))
        queue = tf.queue.FIFOQueue(64, dtypes, shapes)
        fill = queue.enqueue_many([tf.constant(stack) for stack in stacks])
        step, found, number = recording(queue, count)
        steps, close = loop_over(queue, step, limit=limit), queue.close()
        session.run(tf.global_variables_initializer())
        session.run(fill)
        session.run(close)
        calls = []
        while sum(calls) < count:
            calls.append(int(session.run(steps)))
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(steps)
        *values, sizes = session.run(found)
        assert session.run(number) == count
    assert calls[:-1] == [limit] * (len(calls) - 1) and 1 <= calls[-1] <= limit
    for value, stack in zip(values, stacks):
        np.testing.assert_array_equal(value, stack)
    np.testing.assert_array_equal(sizes, np.arange(count)[::-1])


def test_steps_begin_with_the_datapoints_that_are_there():
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.queue.FIFOQueue(64, [tf.float32], [[]])
        fill = queue.enqueue_many([tf.range(7.0)])
        step, _, _ = recording(queue, 64)
        steps = loop_over(queue, step, limit=50)
        session.run(tf.global_variables_initializer())
        session.run(fill)
        assert session.run(steps) == 7


def test_a_call_leaves_no_datapoints_in_memory():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        queue = tf.queue.FIFOQueue(64, [tf.float32], [[]])
        fill = queue.enqueue_many([tf.range(7.0)])
        step, _, _ = recording(queue, 64)
        steps = loop_over(queue, step)
        taken = [op.outputs[0] for op in graph.get_operations() if op.name.startswith("stacked_input/taken")]
        left = [tf.raw_ops.VarIsInitializedOp(resource=handle) for handle in taken]
        session.run(tf.global_variables_initializer())
        session.run(fill)
        session.run(steps)
        assert len(left) == 2 and not any(session.run(left))


def test_the_loop_passes_on_nothing_but_its_numbers():
    with tf.Graph().as_default() as graph:
        queue = tf.queue.FIFOQueue(64, [tf.float32, tf.int32], [[3], []])
        sums = [tf.Variable(tf.zeros([3]), use_resource=True), tf.Variable(0, use_resource=True)]
        step = tf.group(*(total.assign_add(value) for total, value in zip(sums, queue.dequeue())))
        loop_over(queue, step)
        [loop] = [op for op in graph.get_operations() if op.type == "While"]
        # The loop's own counter, its maximum, and the number of the iteration.
        assert [tensor.shape.rank for tensor in loop.inputs if tensor.dtype != tf.resource] == [0, 0, 0]


def fifo(capacity=64, dtype=tf.float32, shape=(2,)):
    return tf.queue.FIFOQueue(capacity, [dtype], None if shape is None else [shape])


def two_dequeues():
    queue = fifo()
    return tf.group(queue.dequeue(), queue.dequeue())


def puts_back():
    queue = fifo()
    return queue.enqueue(queue.dequeue())


OTHERS = {
    "unknown shapes": lambda: fifo(shape=None).dequeue().op,
    "strings": lambda: fifo(dtype=tf.string).dequeue().op,
    "a dtype that variables cannot be gathered of": lambda: fifo(dtype=tf.qint16).dequeue().op,
    "an axis of length 0": lambda: fifo(shape=[0, 3]).dequeue().op,
    "large datapoints": lambda: fifo(shape=[200, 200]).dequeue().op,
    "a small queue": lambda: fifo(capacity=8).dequeue().op,
    "another order": lambda: tf.queue.RandomShuffleQueue(64, 0, [tf.float32], [[2]]).dequeue().op,
    "batches": lambda: fifo().dequeue_many(3).op,
    "two towers": two_dequeues,
    "a step that puts": puts_back,
    "no queue": lambda: tf.no_op(),
}


@pytest.mark.parametrize("make_step", OTHERS.values(), ids=list(OTHERS))
def test_steps_without_stacked_input(make_step):
    with tf.Graph().as_default():
        assert StackedInput.of(StepCopies([make_step()]).ops) is None


@pytest.mark.parametrize("capacity", [16, 256, -1])
def test_steps_with_stacked_input(capacity):
    with tf.Graph().as_default():
        assert StackedInput.of(StepCopies([fifo(capacity=capacity).dequeue().op]).ops) is not None
