"""The LSTM and GRU cells, with the variables of TensorFlow 1."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..arguments import TensorFunction, check_count, check_function, is_number, resolve_initializer
from ._rnn_cell import RNNCell, Step, Variables
from ._sequences import Tensors, last_of_each, scan_times

__all__ = ["GRUCell", "LSTMCell", "LSTMState", "lstm_over_time", "split_kernel", "times_matrix"]


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


def split_kernel(kernel: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits a kernel for `[x, h]` into the parts for the input and for the last output.

    Args:
        kernel: tensor `[input_size + units, size]`.
        x: inputs `[..., input_size]`.

    Returns:
        Tensors `[input_size, size]` and `[units, size]`.
    """
    input_size = x.shape[-1]
    of_input, of_output = tf.split(kernel, [input_size, kernel.shape[0] - input_size])
    return of_input, of_output


def times_matrix(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Multiplies the last axis of a tensor by a matrix, all other axes in one product.

    Args:
        x: tensor `[..., a]`.
        matrix: tensor `[a, b]`.

    Returns:
        Tensor `[..., b]`.
    """
    if x.shape.rank == 2:
        return tf.matmul(x, matrix)
    product = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix)
    sizes = tf.concat([tf.shape(x)[:-1], [matrix.shape[1]]], 0)
    product = tf.reshape(product, sizes)
    product.set_shape([*x.shape[:-1], matrix.shape[1]])
    return product


class LSTMState(NamedTuple):
    """The state of an LSTM.

    Attributes:
        c: the cell state, `[N, units]`.
        h: the last output, `[N, units]`.

    Example:
        >>> with tf.Graph().as_default():
        ...     start = LSTMState(c=tf.zeros([8, 16]), h=tf.zeros([8, 16]))
        >>> start.h.shape.as_list()
        [8, 16]
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


@final
class GRUCell(RNNCell):
    """Gated recurrent unit, after Cho et al. (2014), arXiv:1406.1078.

    One step, where `[x, h]` concatenates the input and the last output::

        r, u = split(sigmoid([x, h] @ gates/kernel + gates/bias), 2)
        new = tanh([x, r * h] @ candidate/kernel + candidate/bias)
        h = u * h + (1 - u) * new

    Variables, in the dtype of the input, under `<name>/`, as in TensorFlow 1's `GRUCell`: `gates/kernel` of
    shape `[input_size + units, 2 * units]`, `gates/bias` of shape `[2 * units]`, `candidate/kernel` of shape
    `[input_size + units, units]` and `candidate/bias` of shape `[units]`.

    Args:
        units: size of the output and of the state, which are equal.
        kernel_initializer: for both kernels; by default that of the variable scope, or Glorot's uniform
            initializer.
        bias_initializer: for both biases; by default ones for the gates, so that a new network keeps its
            state, and zeros for the candidate.
        kernel_regularizer: function of a kernel that returns a scalar cost.
        bias_regularizer: function of a bias that returns a scalar cost.
        name: the variable scope of the variables.

    Raises:
        TypeError: an initializer or a regularizer has another type.
        ValueError: `units` is not a positive int.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import GRUCell
        >>> with tf.Graph().as_default():
        ...     cell = GRUCell(8)
        ...     output, state = cell(tf.ones([2, 5]), cell.zero_state(2, tf.float32))
        ...     [v.op.name for v in tf.trainable_variables()][:2]
        ['gru_cell/gates/kernel', 'gru_cell/gates/bias']
    """

    def __init__(
        self,
        units: int,
        *,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        kernel_regularizer: TensorFunction | None = None,
        bias_regularizer: TensorFunction | None = None,
        name: str = "gru_cell",
    ) -> None:
        super().__init__(name)
        self.units = check_count("GRUCell", "units", units)
        check_function("GRUCell", "kernel_regularizer", kernel_regularizer)
        check_function("GRUCell", "bias_regularizer", bias_regularizer)
        self._initializers = kernel_initializer, bias_initializer
        self._regularizers = kernel_regularizer, bias_regularizer

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self.units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self.units

    def make_variables(self, input_size: int, dtype: tf.DType) -> Variables:
        """Creates kernel and bias of the gates and of the candidate."""
        given = dict(zip(("kernel", "bias"), self._initializers))
        regularizers = dict(zip(("kernel", "bias"), self._regularizers))
        ones, zeros = tf.ones_initializer(), tf.zeros_initializer()
        gates, rows = 2 * self.units, input_size + self.units
        table = [
            ("gates", "kernel", [rows, gates], None),
            ("gates", "bias", [gates], ones),
            ("candidate", "kernel", [rows, self.units], None),
            ("candidate", "bias", [self.units], zeros),
        ]
        initializers = [
            resolve_initializer("GRUCell", f"{name}_initializer", given[name], default, shape)
            for _, name, shape, default in table
        ]
        return {
            f"{part}_{name}": tf.get_variable(f"{part}/{name}", shape, dtype, initializer, regularizers[name])
            for (part, name, shape, _), initializer in zip(table, initializers)
        }

    def begin(self, variables: Variables, x: tf.Tensor) -> tuple[tf.Tensor, Step]:
        """Computes the inputs' part of gates and candidate, in one product."""
        gates_of_input, gates_of_output = split_kernel(variables["gates_kernel"], x)
        new_of_input, new_of_output = split_kernel(variables["candidate_kernel"], x)
        biases = tf.concat([variables["gates_bias"], variables["candidate_bias"]], 0)

        def step(parts: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            gates, new = tf.split(parts, [2 * self.units, self.units], axis=1)
            gates = tf.sigmoid(gates + tf.matmul(state, gates_of_output))
            reset, update = tf.split(gates, 2, axis=1)
            new = tf.tanh(new + tf.matmul(reset * state, new_of_output))
            h = update * state + (1 - update) * new
            return h, h

        product = times_matrix(x, tf.concat([gates_of_input, new_of_input], 1))
        return tf.nn.bias_add(product, biases), step
