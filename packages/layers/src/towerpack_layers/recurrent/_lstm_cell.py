"""The LSTM cell, with the variables of TensorFlow 1's `BasicLSTMCell`."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..arguments import TensorFunction, check_count, check_function, is_number, resolve_initializer
from ._gate_products import split_kernel, times_matrix
from ._lstm_over_time import lstm_over_time
from ._rnn_cell import RNNCell, Step, Variables

__all__ = ["LSTMCell", "LSTMState"]


class LSTMState(NamedTuple):
    """The state of an LSTM.

    Attributes:
        c: the cell state, `[N, units]`.
        h: the last output, `[N, units]`.
    """

    c: Any
    h: Any


@final
class LSTMCell(RNNCell):
    """Long short-term memory with a forget gate, after Gers, Schmidhuber and Cummins (2000).

    One step, where `[x, h]` concatenates the input and the last output::

        i, j, f, o = split([x, h] @ kernel + bias, 4)
        c = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)
        h = sigmoid(o) * tanh(c)

    Variables, in the dtype of the input: `<name>/kernel` of shape `[input_size + units, 4 * units]` and
    `<name>/bias` of shape `[4 * units]`, as in TensorFlow 1's `BasicLSTMCell`. `forget_bias` is not stored in
    `bias`.

    Args:
        units: size of the output, and of both parts of the state, an `LSTMState`.
        forget_bias: number added to the forget gate, so that a new network keeps its state.
        kernel_initializer: for `kernel`; by default that of the variable scope, or Glorot's uniform
            initializer.
        bias_initializer: for `bias`; zeros by default.
        kernel_regularizer: function of `kernel` that returns a scalar cost.
        bias_regularizer: function of `bias` that returns a scalar cost.
        name: the variable scope of the variables; `lstm_cell` for those of TensorFlow 1's `LSTMCell`.

    Raises:
        TypeError: an initializer or a regularizer has another type.
        ValueError: `units` is not a positive int, or `forget_bias` is not a number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LSTMCell
        >>> with tf.Graph().as_default():
        ...     cell = LSTMCell(8)
        ...     output, state = cell(tf.ones([2, 5]), cell.zero_state(2, tf.float32))
        ...     [(v.op.name, v.shape.as_list()) for v in tf.trainable_variables()]
        [('basic_lstm_cell/kernel', [13, 32]), ('basic_lstm_cell/bias', [32])]
    """

    def __init__(
        self,
        units: int,
        *,
        forget_bias: float = 1.0,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        kernel_regularizer: TensorFunction | None = None,
        bias_regularizer: TensorFunction | None = None,
        name: str = "basic_lstm_cell",
    ) -> None:
        super().__init__(name)
        self.units = check_count("LSTMCell", "units", units)
        if not is_number(forget_bias):
            raise ValueError(f"LSTMCell: forget_bias must be a number, received {forget_bias!r}.")
        check_function("LSTMCell", "kernel_regularizer", kernel_regularizer)
        check_function("LSTMCell", "bias_regularizer", bias_regularizer)
        self._forget_bias = float(forget_bias)
        self._initializers = kernel_initializer, bias_initializer
        self._regularizers = kernel_regularizer, bias_regularizer

    @property
    def state_size(self) -> LSTMState:
        """The sizes of both parts of the state."""
        return LSTMState(self.units, self.units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self.units

    def make_variables(self, input_size: int, dtype: tf.DType) -> Variables:
        """Creates `kernel` and `bias`."""
        shapes = {"kernel": [input_size + self.units, 4 * self.units], "bias": [4 * self.units]}
        defaults = None, tf.zeros_initializer()
        initializers = [
            resolve_initializer("LSTMCell", f"{name}_initializer", given, default, shape)
            for (name, shape), given, default in zip(shapes.items(), self._initializers, defaults)
        ]
        return {
            name: tf.get_variable(name, shape, dtype, initializer, regularizer)
            for (name, shape), initializer, regularizer in zip(
                shapes.items(), initializers, self._regularizers
            )
        }

    def begin(self, variables: Variables, x: tf.Tensor) -> tuple[tf.Tensor, Step]:
        """Computes the inputs' part of the gates."""
        gates, of_output = self._gates(variables, x)

        def step(gates: tf.Tensor, state: LSTMState) -> tuple[tf.Tensor, LSTMState]:
            put, new, forget, out = tf.split(gates + tf.matmul(state.h, of_output), 4, axis=1)
            c = tf.sigmoid(forget) * state.c + tf.sigmoid(put) * tf.tanh(new)
            h = tf.sigmoid(out) * tf.tanh(c)
            return h, LSTMState(c, h)

        return gates, step

    def unroll(
        self, variables: Variables, x: tf.Tensor, state: Any, lengths: tf.Tensor | None
    ) -> tuple[tf.Tensor, LSTMState]:
        """Repeats the cell over time as in `RNNCell`, with a faster gradient."""
        gates, of_output = self._gates(variables, x)
        outputs, c, h = lstm_over_time(gates, of_output, state.c, state.h, lengths)
        return outputs, LSTMState(c, h)

    def _gates(self, variables: Variables, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the inputs' and biases' part of the gates, and the kernel for the last output."""
        of_input, of_output = split_kernel(variables["kernel"], x)
        forget_bias = np.zeros([4, self.units])
        forget_bias[2] = self._forget_bias
        bias = variables["bias"] + tf.constant(forget_bias.reshape(-1), x.dtype)
        return tf.nn.bias_add(times_matrix(x, of_input), bias), of_output
