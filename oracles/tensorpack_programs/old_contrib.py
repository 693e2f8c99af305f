"""The parts of `tf.contrib` that Tensorpack's examples use, for Tensorpack on a TensorFlow without them."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_ops

__all__ = ["install"]


def install() -> None:
    """Makes `tf.contrib` of tf_slim, and of the recurrent cells that TensorFlow still has."""
    # tf_slim looks for these where they were in 2020.
    vars(ops).update(Tensor=tf.Tensor, IndexedSlices=tf.IndexedSlices)
    vars(control_flow_ops).update(cond=tf.cond)
    slim = importlib.import_module("tf_slim")
    layers = importlib.import_module("tf_slim.layers.layers")
    normalization = importlib.import_module("tf_keras.src.legacy_tf_layers.normalization")
    vars(layers)["normalization_layers"] = normalization
    nets = importlib.import_module("tf_slim.nets")
    importlib.import_module("tf_slim.nets.resnet_v1")
    cells = {name: getattr(tf.nn.rnn_cell, name) for name in dir(tf.nn.rnn_cell)}
    rnn = types.SimpleNamespace(**cells, LSTMBlockCell=_block_cell(), static_rnn=tf.nn.static_rnn)
    contrib: Any = types.ModuleType("tensorflow.contrib")
    contrib.slim, contrib.rnn = slim, rnn
    sys.modules["tensorflow"].contrib = contrib  # type: ignore[attr-defined]
    sys.modules |= {
        "tensorflow.contrib": contrib,
        "tensorflow.contrib.slim": slim,
        "tensorflow.contrib.slim.nets": nets,
    }


def _block_cell() -> type:
    """Returns TensorFlow 1's LSTMBlockCell: one op, which TensorFlow still has without a gradient."""

    class LSTMBlockCell(tf.nn.rnn_cell.BasicLSTMCell):  # type: ignore[misc]
        def __init__(self, num_units: int) -> None:
            super().__init__(num_units, name="lstm_cell")

        def call(self, inputs: Any, state: Any) -> Any:
            none = tf.zeros([self._num_units])
            weights = {"w": self._kernel, "wci": none, "wcf": none, "wco": none, "b": self._bias}
            outputs = tf.raw_ops.LSTMBlockCell(
                x=inputs, cs_prev=state[0], h_prev=state[1], **weights, cell_clip=-1
            )
            return outputs.h, tf.nn.rnn_cell.LSTMStateTuple(outputs.cs, outputs.h)

    ops.RegisterGradient("LSTMBlockCell")(_gradient)
    return LSTMBlockCell


def _gradient(op: tf.Operation, *gradients: Any) -> list[Any]:
    names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    inputs = dict(zip(names, op.inputs))
    outputs = dict(zip(("i", "cs", "f", "o", "ci", "co"), op.outputs))
    of_previous, of_gates, *of_peepholes = tf.raw_ops.LSTMBlockCellGrad(
        **inputs, **outputs, cs_grad=gradients[1], h_grad=gradients[6], use_peephole=False
    )
    both = tf.concat([inputs["x"], inputs["h_prev"]], 1)
    sizes = [each.shape.as_list()[1] for each in (inputs["x"], inputs["h_prev"])]
    of_x, of_h = tf.split(tf.matmul(of_gates, inputs["w"], transpose_b=True), sizes, axis=1)
    of_weights = tf.matmul(both, of_gates, transpose_a=True)
    return [of_x, of_previous, of_h, of_weights, *of_peepholes, tf.reduce_sum(of_gates, 0)]
