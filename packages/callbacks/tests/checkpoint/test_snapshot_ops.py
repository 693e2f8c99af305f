"""The fetches of a saver: copies made by the graph."""

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MaxSaver, MinSaver, ModelSaver
from towerpack_callbacks.checkpoint import load_variables
from towerpack_callbacks.checkpoint._variable_values import add_copies, copies_or_variables

GLOBALS = (tf.GraphKeys.GLOBAL_VARIABLES,)


def test_variables_of_any_type_are_copied():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.get_variable("a/real", initializer=np.float32([1, 2]))
        tf.get_variable("whole", initializer=np.int64(3))
        tf.get_variable("truth", initializer=np.array([True, False]))
        tf.get_variable("half", initializer=tf.constant([0.5], tf.bfloat16))
        tf.get_variable("text", initializer=tf.constant(["x", "yz"]))
        with tf.variable_scope("old", use_resource=False):
            tf.get_variable("reference", initializer=np.float32(4))
        add_copies(graph, GLOBALS)
        tf.get_variable("later", initializer=np.float32(5))
        sess.run(tf.global_variables_initializer())
        wanted = copies_or_variables(graph, GLOBALS)
        assert [
            name for name, what in wanted.items() if not tf.is_tensor(what) or "copies" not in what.name
        ] == ["later"]
        values, expected = sess.run([wanted, {v.op.name: v for v in tf.global_variables()}])
        for name, value in values.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name, strict=True)


def test_a_copy_is_unchanged_while_training_continues():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        variable = tf.get_variable("v", initializer=np.zeros(100_000, np.float32))
        add_copies(graph, GLOBALS)
        step = variable.assign_add(tf.ones_like(variable))
        sess.run(tf.global_variables_initializer())
        copied = sess.run(copies_or_variables(graph, GLOBALS))["v"]
        for _ in range(3):
            sess.run(step)
        assert not copied.any()


def test_several_savers_share_the_copies(line, tmp_path):
    class Put(Callback):
        def produces(self):
            return ["score"]

        def _trigger_epoch(self):
            self.trainer.monitors.put_scalar("score", 1.0)
            self.operations = self.graph.get_operations()
            self.variables = self.graph.get_collection("variables")

    put = Put()
    line.run([put, ModelSaver(), MaxSaver("score"), MinSaver("score")], steps_per_epoch=2, max_epoch=1)
    assert sum(op.type == "DeepCopy" for op in put.operations) == len(put.variables)
    assert set(load_variables(tmp_path / "latest")) == {variable.op.name for variable in put.variables}


def test_a_final_graph_is_left_alone():
    with tf.Graph().as_default() as graph:
        tf.get_variable("v", initializer=np.float32(1))
        graph.finalize()
        add_copies(graph, GLOBALS)
        assert copies_or_variables(graph, GLOBALS)["v"] is tf.global_variables()[0]
