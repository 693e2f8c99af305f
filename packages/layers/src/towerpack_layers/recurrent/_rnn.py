"""Layers that repeat a cell over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import TensorFunction, check_channels, check_count, check_rank, layer_label
from ..registry._layer_info import REQUIRED
from ..registry._layer_scope import attach_variables
from ..registry._register_layer import register_layer
from ._gated_cells import GRUCell, LSTMCell
from ._rnn_cell import RNNCell, Variables, as_tensors, check_state
from ._sequences import (
    check_lengths,
    mask_after_end,
    reverse_in_time,
    swap_batch_and_time,
    with_a_time,
)

__all__ = ["GRU", "LSTM", "RNN", "BidirectionalRNN", "repeat_cell"]


@register_layer(log_shape=True)
def RNN(x: tf.Tensor, cell: RNNCell, lengths: Any = None, initial_state: Any = None) -> tf.Tensor:
    """Repeats a cell over the time steps of a batch of sequences.

    Variables: those of the cell, in the layer's scope, as in `tf.nn.dynamic_rnn(cell, x, scope=<name>)` of
    TensorFlow 1: `rnn/basic_lstm_cell/kernel` for `RNN("rnn", x, LSTMCell(64))`.

    The result has the last state as its attribute `state`, in addition to `variables`. To pass the state to
    the next part of longer sequences, store it in non-trainable variables, or fetch and feed it.

    Args:
        x: floating tensor of shape `[N, T, C]`; C is static, N and T may be zero.
        cell: the cell, such as `LSTMCell(64)`, `GRUCell(64)` or `MultiRNNCell([...])`.
        lengths: integers `[N]` from 0 to T, the number of steps of each sequence. Outputs after the last step
            are zero, and `state` is the one after the last step. By default all have T.
        initial_state: the state before the first step, in the structure of `state`; zeros by default.

    Returns:
        Tensor `[N, T, cell.output_size]` of the input's dtype; `.state` holds the last state in the structure
        of `cell.state_size`, and `.variables` the variables of the cell.

    Raises:
        TypeError: the cell is not an `RNNCell`, lengths are not integers, or a state is not floating.
        ValueError: the input is not 3-D, its size is unknown, or lengths or states do not match it.
        tf.errors.InvalidArgumentError: at run time, a length is outside of 0 to T.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LSTMCell, RNN
        >>> with tf.Graph().as_default():
        ...     out = RNN("rnn", tf.ones([2, 5, 4]), LSTMCell(8), lengths=[5, 3])
        >>> out.name, out.shape, out.state.h.shape, out.variables.kernel.name
        ('rnn/output:0', TensorShape([2, 5, 8]), TensorShape([2, 8]), 'rnn/basic_lstm_cell/kernel:0')
    """
    return repeat_cell(layer_label("RNN"), x, cell, lengths, initial_state)


@register_layer(log_shape=True)
def BidirectionalRNN(
    x: tf.Tensor,
    forward_cell: RNNCell,
    backward_cell: RNNCell,
    lengths: Any = None,
    initial_state: Any = None,
) -> tf.Tensor:
    """Repeats one cell forward over sequences and another one backward, and concatenates their outputs.

    The second cell starts at the last step of each sequence; its outputs are aligned with its inputs.

    Variables: those of the cells, in the scopes `fw` and `bw` within that of the layer, as in
    `tf.nn.bidirectional_dynamic_rnn` of TensorFlow 1.

    Args:
        x: floating tensor of shape `[N, T, C]`; C is static, N and T may be zero.
        forward_cell: the cell that runs forward in time.
        backward_cell: the cell that runs backward in time.
        lengths: as in `RNN`.
        initial_state: a pair of initial states, one for each cell; zeros by default.

    Returns:
        Tensor `[N, T, sum of both output sizes]`, the forward outputs first; `.state` holds the pair of last
        states (for `backward_cell`, the state after the first time step), and `.variables` all variables,
        with the prefixes `fw_` and `bw_`.

    Raises:
        TypeError: a cell is not an `RNNCell`, lengths are not integers, or a state is not floating.
        ValueError: the input is not 3-D or its size unknown, or lengths or states do not fit it.
        tf.errors.InvalidArgumentError: at run time, a length lies outside of 0 to T.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import BidirectionalRNN, GRUCell
        >>> with tf.Graph().as_default():
        ...     BidirectionalRNN("rnn", tf.ones([2, 5, 4]), GRUCell(8), GRUCell(8)).shape
        TensorShape([2, 5, 16])
    """
    call = layer_label("BidirectionalRNN")
    check_rank(call, x, 3)
    _check_cell(call, "forward_cell", forward_cell)
    _check_cell(call, "backward_cell", backward_cell)
    size = check_channels(call, x, 2)
    cells, given = (forward_cell, backward_cell), (None, None)
    if initial_state is not None:
        given = _pair(call, initial_state)
    states = [_first_state(call, state, cell, x) for state, cell in zip(given, cells)]
    lengths = check_lengths(call, lengths, x)

    sequences = with_a_time(swap_batch_and_time(x))
    with tf.variable_scope("fw"):
        variables = {"fw": forward_cell.variables_for(size, x.dtype)}
        forward, forward_last = _unroll(forward_cell, variables["fw"], sequences, states[0], lengths)
    with tf.variable_scope("bw"):
        variables["bw"] = backward_cell.variables_for(size, x.dtype)
        back = reverse_in_time(sequences, lengths)
        back, backward_last = _unroll(backward_cell, variables["bw"], back, states[1], lengths)
    outputs = tf.concat([forward, reverse_in_time(back, lengths)], 2)
    return _result(x, outputs, tuple(states), (forward_last, backward_last), variables)


def repeat_cell(call: str, x: tf.Tensor, cell: RNNCell, lengths: Any, initial_state: Any) -> tf.Tensor:
    """Builds the layer `RNN` with the label of the called layer."""
    check_rank(call, x, 3)
    _check_cell(call, "cell", cell)
    size = check_channels(call, x, 2)
    state = _first_state(call, initial_state, cell, x)
    lengths = check_lengths(call, lengths, x)
    variables = cell.variables_for(size, x.dtype)
    sequences = with_a_time(swap_batch_and_time(x))
    outputs, last = _unroll(cell, variables, sequences, state, lengths)
    return _result(x, outputs, state, last, variables)


def _check_cell(call: str, argument: str, cell: Any) -> None:
    if not isinstance(cell, RNNCell):
        raise TypeError(
            f"{call}: {argument} must be a cell, such as LSTMCell(64) or MultiRNNCell([...]), received "
            f"{cell!r}."
        )


def _pair(call: str, initial_state: Any) -> tuple[Any, Any]:
    if not isinstance(initial_state, (tuple, list)) or len(initial_state) != 2:
        raise ValueError(
            f"{call}: initial_state must be a pair of states, for the forward and the backward cell, "
            f"received {type(initial_state).__name__}."
        )
    return initial_state[0], initial_state[1]


def _first_state(call: str, given: Any, cell: RNNCell, x: tf.Tensor) -> Any:
    """Returns the state before the first step, with its static shape as far as known."""
    batch = x.shape[0]
    if given is None:
        given = cell.zero_state(tf.shape(x)[0] if batch is None else batch, x.dtype)
    return check_state(call, "initial_state", given, cell.state_size, batch, x.dtype)


def _unroll(
    cell: RNNCell, variables: Variables, sequences: tf.Tensor, state: Any, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, Any]:
    """Repeats a cell over time; the outputs `[T, N, size]` are zero after the ends of sequences."""
    outputs, last = cell.unroll(as_tensors(variables), sequences, state, lengths)
    return outputs if lengths is None else mask_after_end(outputs, lengths), last


def _result(x: tf.Tensor, outputs: tf.Tensor, first: Any, last: Any, variables: Variables) -> tf.Tensor:
    """Names the outputs and attaches the last state and the variables.

    Args:
        x: the layer's input, `[N, T, C]`.
        outputs: `[T, N, size]`, or one time step if T is zero.
        first: the state before the first step.
        last: the state after the last one.
        variables: the variables, with a mapping for each cell.
    """
    if not x.shape[1]:
        times = tf.shape(x)[1]
        outputs = outputs[:times]
        last = tf.nest.map_structure(lambda new, old: tf.where_v2(times > 0, new, old), last, first)
    outputs = swap_batch_and_time(outputs)
    outputs.set_shape([x.shape[0], x.shape[1], outputs.shape[2]])
    result = attach_variables(tf.identity(outputs, "output"), **_flat(variables))
    result.state = last
    return result


def _flat(variables: Variables, prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in variables.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}_"))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


@register_layer(log_shape=True)
def LSTM(
    x: tf.Tensor,
    units: int = REQUIRED,
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
    units: int = REQUIRED,
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
