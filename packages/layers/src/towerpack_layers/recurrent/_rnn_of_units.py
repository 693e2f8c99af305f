"""Recurrent layers with one cell, by number of units."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import TensorFunction, check_count, layer_label
from ..registry import register_layer
from ._gru_cell import GRUCell
from ._lstm_cell import LSTMCell
from ._rnn import repeat_cell

__all__ = ["GRU", "LSTM"]


@register_layer(log_shape=True)
def LSTM(
    x: tf.Tensor,
    units: int,
    lengths: Any = None,
    initial_state: Any = None,
    forget_bias: float = 1.0,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Repeats an `LSTMCell` over time: `RNN` of this cell, with its arguments.

    Variables: `basic_lstm_cell/kernel` and `basic_lstm_cell/bias`, as described in `LSTMCell`.

    Args:
        x: floating tensor of shape `[N, T, C]`; C is static, N and T may be zero.
        units: size of the outputs.
        lengths: integers `[N]`, the number of steps of each sequence, as in `RNN`.
        initial_state: an `LSTMState` before the first step; zeros by default.
        forget_bias: number added to the forget gate, which is not stored in `bias`.
        kernel_initializer: for `kernel`; by default that of the variable scope, or Glorot's uniform
            initializer.
        bias_initializer: for `bias`; zeros by default.
        kernel_regularizer: function of `kernel` that returns a scalar cost.
        bias_regularizer: function of `bias` that returns a scalar cost.

    Returns:
        Tensor `[N, T, units]` of the input's dtype; `.state` holds the last `LSTMState`, `.variables` holds
        `kernel` and `bias`.

    Raises:
        TypeError: an argument has another type, as in `RNN` and `LSTMCell`.
        ValueError: an argument is out of range, as in `RNN` and `LSTMCell`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LinearWrap
        >>> with tf.Graph().as_default():
        ...     LinearWrap(tf.ones([2, 5, 4])).LSTM("lstm0", 8).LSTM("lstm1", 6)().shape
        TensorShape([2, 5, 6])
    """
    call = layer_label("LSTM")
    cell = LSTMCell(
        check_count(call, "units", units),
        forget_bias=forget_bias,
        kernel_initializer=kernel_initializer,
        bias_initializer=bias_initializer,
        kernel_regularizer=kernel_regularizer,
        bias_regularizer=bias_regularizer,
    )
    return repeat_cell(call, x, cell, lengths, initial_state)


@register_layer(log_shape=True)
def GRU(
    x: tf.Tensor,
    units: int,
    lengths: Any = None,
    initial_state: Any = None,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Repeats a `GRUCell` over time: `RNN` of this cell, with its arguments.

    Variables: `gates/kernel`, `gates/bias`, `candidate/kernel` and `candidate/bias` in `gru_cell`, as
    described in `GRUCell`.

    Args:
        x: floating tensor of shape `[N, T, C]`; C is static, N and T may be zero.
        units: size of the outputs.
        lengths: integers `[N]`, the number of steps of each sequence, as in `RNN`.
        initial_state: the output before the first step, `[N, units]`; zeros by default.
        kernel_initializer: for both kernels; by default that of the variable scope, or Glorot's uniform
            initializer.
        bias_initializer: for both biases; by default ones for the gates and zeros for the candidate.
        kernel_regularizer: function of a kernel that returns a scalar cost.
        bias_regularizer: function of a bias that returns a scalar cost.

    Returns:
        Tensor `[N, T, units]` of the input's dtype; `.state` holds the last output of each sequence,
        `.variables` holds `gates_kernel`, `gates_bias`, `candidate_kernel` and `candidate_bias`.

    Raises:
        TypeError: an argument has another type, as in `RNN` and `GRUCell`.
        ValueError: an argument is out of range, as in `RNN` and `GRUCell`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import GRU
        >>> with tf.Graph().as_default():
        ...     out = GRU("gru", tf.ones([2, 5, 4]), 8)
        >>> out.shape, out.state.shape
        (TensorShape([2, 5, 8]), TensorShape([2, 8]))
    """
    call = layer_label("GRU")
    cell = GRUCell(
        check_count(call, "units", units),
        kernel_initializer=kernel_initializer,
        bias_initializer=bias_initializer,
        kernel_regularizer=kernel_regularizer,
        bias_regularizer=bias_regularizer,
    )
    return repeat_cell(call, x, cell, lengths, initial_state)
