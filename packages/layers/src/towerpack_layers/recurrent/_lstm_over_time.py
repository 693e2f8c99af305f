"""An LSTM over all time steps, with a custom gradient.

TensorFlow would differentiate each small op of each step. Here, the parts of the gradient that can be
computed for all time steps at once are moved out of the steps: the derivatives of the gates before them, and
the gradient by the kernel, a single product, after them. The steps keep a third of the ops.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ._scan_times import Tensors, scan_times
from ._sequences import last_of_each

__all__ = ["lstm_over_time"]

_GRADIENT = "TowerpackLayersLSTM"


def lstm_over_time(
    gates: tf.Tensor, kernel: tf.Tensor, c: tf.Tensor, h: tf.Tensor, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes an LSTM over time.

    Args:
        gates: tensor `[T, N, 4 * units]`, the inputs' and biases' part of the gates.
        kernel: tensor `[units, 4 * units]`, the factor of the last output.
        c: the state before the first step, `[N, units]`.
        h: the output before the first step, `[N, units]`.
        lengths: the number of steps of each sequence; `None` if all have T.

    Returns:
        The outputs `[T, N, units]`, including those after the ends of sequences, and `c` and `h` after the
        last step of each.
    """
    units = kernel.shape[0]

    def step(inputs: Tensors, carry: Tensors) -> tuple[Tensors, Tensors]:
        put, new, forget, out = tf.split(inputs[0] + tf.matmul(carry[1], kernel), 4, axis=1)
        put, new, forget, out = tf.sigmoid(put), tf.tanh(new), tf.sigmoid(forget), tf.sigmoid(out)
        c = forget * carry[0] + put * new
        h = out * tf.tanh(c)
        return [put, new, forget, out, c, h], [c, h]

    (*activations, cs, hs), (last, _) = scan_times(step, [gates], [c, h], 6 * [units])
    # The outputs of this op have the gradient registered below.
    with tf.get_default_graph().gradient_override_map({"IdentityN": _GRADIENT}):
        kept = [cs, *activations]
        hs, cs, *_ = tf.identity_n([hs, last if lengths is None else cs, gates, kernel, c, h, *kept, hs])
    if lengths is None:
        return hs, cs, hs[-1]
    return hs, last_of_each(c, cs, lengths), last_of_each(h, hs, lengths)


def _gradient(op: tf.Operation, by_outputs: tf.Tensor, by_cs: tf.Tensor, *_unused: Any) -> list[Any]:
    """Returns the gradients by the inputs of the op; the last inputs are only saved for the gradient.

    `by_cs` covers all time steps, `[T, N, units]`, or only the last one, `[N, units]`.
    """
    _, _, gates, kernel, c, h, cs, put, new, forget, out, hs = op.inputs
    units = kernel.shape[0]
    bounded = tf.tanh(cs)
    # The derivative of an activation from its value, times another tensor, in one op.
    of_sigmoid, of_tanh = tf.raw_ops.SigmoidGrad, tf.raw_ops.TanhGrad
    by_c = of_tanh(y=bounded, dy=out)
    factors = [
        of_sigmoid(y=put, dy=new),
        of_tanh(y=new, dy=put),
        of_sigmoid(y=forget, dy=_before(c, cs)),
        of_sigmoid(y=out, dy=bounded),
    ]
    of_all_times = by_cs.shape.rank == 3

    def step(inputs: Tensors, carry: Tensors) -> tuple[Tensors, Tensors]:
        by_output, by_c, factors, forget, *more = inputs
        by_h = by_output + carry[1]
        by_state = carry[0] + by_h * by_c
        if more:
            by_state += more[0]
        by_gates = tf.concat([by_state, by_state, by_state, by_h], 1) * factors
        return [by_gates], [by_state * forget, tf.matmul(by_gates, kernel, transpose_b=True)]

    inputs = [by_outputs, by_c, tf.concat(factors, 2), forget, *([by_cs] if of_all_times else [])]
    zeros = tf.zeros_like(h)
    carry = [zeros if of_all_times else by_cs, zeros]
    (by_gates,), (by_first_c, by_first_h) = scan_times(step, inputs, carry, [4 * units], backward=True)
    by_gates.set_shape(gates.shape)
    rows = tf.reshape(_before(h, hs), [-1, units]), tf.reshape(by_gates, [-1, 4 * units])
    by_kernel = tf.matmul(*rows, transpose_a=True)
    return [None, None, by_gates, by_kernel, by_first_c, by_first_h, *(6 * [None])]


def _before(first: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Shifts values by one time step; `first` becomes the first value."""
    return tf.concat([tf.expand_dims(first, 0), values[:-1]], 0)


tf.RegisterGradient(_GRADIENT)(_gradient)
