"""The GRU cell, with the variables of TensorFlow 1's `GRUCell`."""

from __future__ import annotations

from typing import Any, final

import tensorflow.compat.v1 as tf

from ..arguments import TensorFunction, check_count, check_function, resolve_initializer
from ._gate_products import split_kernel, times_matrix
from ._rnn_cell import RNNCell, Step, Variables

__all__ = ["GRUCell"]


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
