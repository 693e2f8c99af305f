"""A stack of cells as one cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._rnn_cell import RNNCell, Step, Variables

__all__ = ["MultiRNNCell"]


@final
class MultiRNNCell(RNNCell):
    """A stack of cells: the output of each is the input of the next.

    The variables are in `<name>/cell_0`, `<name>/cell_1` and so on, as in TensorFlow 1's `MultiRNNCell`:
    `rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel` in an `RNN("rnn", ...)` of `LSTMCell`s. Each position
    has separate variables, even if one cell is given several times.

    Args:
        cells: the cells, starting from the input.
        name: the variable scope of the variables.

    Raises:
        TypeError: `cells` is not a sequence of cells.
        ValueError: `cells` is empty.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import RNN, GRUCell, MultiRNNCell
        >>> with tf.Graph().as_default():
        ...     out = RNN("rnn", tf.ones([2, 5, 4]), MultiRNNCell([GRUCell(8), GRUCell(6)]))
        >>> out.shape, [part.shape.as_list() for part in out.state]
        (TensorShape([2, 5, 6]), [[2, 8], [2, 6]])
    """

    def __init__(self, cells: Sequence[RNNCell], *, name: str = "multi_rnn_cell") -> None:
        super().__init__(name)
        if not isinstance(cells, Sequence) or not all(isinstance(cell, RNNCell) for cell in cells):
            raise TypeError(
                f"MultiRNNCell: cells must be a list of cells, such as [LSTMCell(64), GRUCell(64)], "
                f"received {cells!r}."
            )
        if not cells:
            raise ValueError("MultiRNNCell: cells must not be empty, received [].")
        self.cells = tuple(cells)

    @property
    def state_size(self) -> tuple[Any, ...]:
        """The sizes of the states of all cells."""
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> int:
        """The size of the last cell's output."""
        return self.cells[-1].output_size

    def make_variables(self, input_size: int, dtype: tf.DType) -> Variables:
        """Creates the variables of all cells."""
        variables = {}
        for index, cell in enumerate(self.cells):
            with tf.variable_scope(f"cell_{index}"):
                variables[f"cell_{index}"] = cell.variables_for(input_size, dtype)
            input_size = cell.output_size
        return variables

    def begin(self, variables: Variables, x: tf.Tensor) -> tuple[tf.Tensor, Step]:
        """Computes the part that depends only on the inputs: that of the first cell."""
        inputs, first = self.cells[0].begin(variables["cell_0"], x)

        def step(inputs: tf.Tensor, states: tuple[Any, ...]) -> tuple[tf.Tensor, tuple[Any, ...]]:
            output, new = first(inputs, states[0])
            news = [new]
            for index, cell in enumerate(self.cells[1:], 1):
                inputs, above = cell.begin(variables[f"cell_{index}"], output)
                output, new = above(inputs, states[index])
                news.append(new)
            return output, tuple(news)

        return inputs, step

    def unroll(
        self, variables: Variables, x: tf.Tensor, state: Any, lengths: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        """Repeats each cell over all time steps before the next cell, which is faster than step by step."""
        lasts = []
        for index, cell in enumerate(self.cells):
            with tf.name_scope(f"cell_{index}"):
                x, last = cell.unroll(variables[f"cell_{index}"], x, state[index], lengths)
            lasts.append(last)
        return x, tuple(lasts)
