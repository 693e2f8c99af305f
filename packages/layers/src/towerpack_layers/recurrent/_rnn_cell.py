"""The base class of recurrent cells, their states, and stacks of cells."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..arguments import check_channels, check_rank
from ..registry._layer_scope import check_graph_mode
from ..tower._tower_context import outermost_graph
from ._sequences import Tensors, mark_steps, scan_times

__all__ = ["MultiRNNCell", "RNNCell", "Step", "Variables", "as_tensors", "check_state", "zero_state"]


def zero_state(sizes: Any, batch_size: int | tf.Tensor, dtype: tf.DType) -> Any:
    """Returns zeros of the structure of `sizes`, each `[batch_size, size]`."""
    return tf.nest.map_structure(lambda size: tf.zeros(tf.stack([batch_size, size]), dtype), sizes)


def check_state(call: str, argument: str, state: Any, sizes: Any, batch: int | None, dtype: tf.DType) -> Any:
    """Checks a state given by the user, and returns it as tensors in the structure of `sizes`.

    Args:
        call: the label of the call, for errors.
        argument: the argument's name, for errors.
        state: the state; lists may replace tuples.
        sizes: the cell's `state_size`.
        batch: the static size of the batch.
        dtype: the input's dtype, to which the state is cast.

    Raises:
        TypeError: a part of the state is not floating.
        ValueError: the state has another structure, or a part has another shape.
    """
    wanted, given = tf.nest.flatten(sizes), tf.nest.flatten(state)
    if len(given) != len(wanted) or not _same_nesting(state, sizes):
        raise ValueError(
            f"{call}: {argument} must have the structure of the cell's state_size, {_text(sizes)}; received "
            f"{_text(state)}."
        )
    parts = [
        _check_part(call, argument, part, tf.TensorShape([batch, size]), dtype)
        for part, size in zip(given, wanted)
    ]
    return tf.nest.pack_sequence_as(sizes, parts)


def _check_part(call: str, argument: str, part: Any, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    tensor = tf.convert_to_tensor(part) if tf.is_tensor(part) else tf.convert_to_tensor(part, dtype)
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"{call}: {argument} must be floating, like the input, received {tensor.dtype.name}. Use tf.cast."
        )
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"{call}: a part of {argument} must have the shape [batch, size], here {shape}; received "
            f"{tensor.shape}."
        )
    # Always a new tensor, since its static shape is refined.
    tensor = tf.identity(tf.cast(tensor, dtype))
    tensor.set_shape(shape)
    return tensor


def _same_nesting(state: Any, sizes: Any) -> bool:
    if not isinstance(sizes, tuple):
        return not isinstance(state, (tuple, list))
    return (
        isinstance(state, (tuple, list))
        and len(state) == len(sizes)
        and all(map(_same_nesting, state, sizes))
    )


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    return str(value) if isinstance(value, int) else type(value).__name__


Step = Callable[[Any, Any], tuple[Any, Any]]
"""One step: from the prepared input and the state to the output and the new state."""

Variables = Mapping[str, Any]
"""The variables of a cell by their short names; a stack has a mapping for each cell."""


class RNNCell(abc.ABC):
    """One step of a recurrent layer: from an input and a state to an output and a new state.

    A cell is a description, like the arguments of a layer. `RNN` repeats it over time; a direct call makes
    one step, for sampling or a custom loop. In both cases its variables are in `<scope>/<name>`, where
    `<scope>` is the variable scope around the call, and towers share them like all other variables. Further
    calls of a cell in the same scope use the same variables.

    Subclasses override `state_size`, `output_size`, `make_variables` and `begin`, and optionally `unroll`, if
    there is a faster way than a loop.

    Args:
        name: the variable scope of the cell's variables.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import RNN, RNNCell
        >>> class SumCell(RNNCell):
        ...     state_size = output_size = 3
        ...     def make_variables(self, input_size, dtype):
        ...         return {"scale": tf.get_variable("scale", [input_size, 3], dtype)}
        ...     def begin(self, variables, x):
        ...         def step(scaled, state):
        ...             return state + scaled, state + scaled
        ...         return tf.tensordot(x, variables["scale"], 1), step
        >>> with tf.Graph().as_default():
        ...     out = RNN("rnn", tf.ones([2, 5, 4]), SumCell("sum"))
        >>> out.shape, out.state.shape, out.variables.scale.name
        (TensorShape([2, 5, 3]), TensorShape([2, 3]), 'rnn/sum/scale:0')
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{type(self).__name__}: name must be a non-empty str, received {name!r}.")
        self.name = name
        # By graph: the scopes in which the cell has created its variables or found those of an earlier tower.
        self._scopes: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()

    @property
    @abc.abstractmethod
    def state_size(self) -> Any:
        """The size of the state: an int or a nested tuple of ints."""

    @property
    @abc.abstractmethod
    def output_size(self) -> int:
        """The size of the output."""

    @abc.abstractmethod
    def make_variables(self, input_size: int, dtype: tf.DType) -> Variables:
        """Creates the variables with `tf.get_variable`, and returns them by short names.

        Args:
            input_size: the size of an input.
            dtype: that of the inputs.
        """

    @abc.abstractmethod
    def begin(self, variables: Variables, x: tf.Tensor) -> tuple[tf.Tensor, Step]:
        """Computes the part that depends only on the inputs; returns it with the function of one step.

        This part is computed for all time steps at once.

        Args:
            variables: the variables of `make_variables`, as tensors.
            x: inputs `[..., input_size]` of one step, or of all steps with the time axis first.

        Returns:
            A tensor `[..., any_size]`, and a function of the tensor's part for one step, `[N, any_size]`, and
            the state. The function returns the output and the new state.
        """

    def unroll(
        self, variables: Variables, x: tf.Tensor, state: Any, lengths: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        """Repeats the cell over time; returns the outputs of all time steps and the last state.

        Args:
            variables: the variables of `make_variables`, as tensors.
            x: inputs `[T, N, input_size]`; T is not zero.
            state: the state before the first step.
            lengths: int32 tensor `[N]`: the number of steps of each sequence. The returned state is the one
                after the last step; outputs after it are arbitrary. `None` if all have T.
        """
        inputs, step = self.begin(variables, x)
        parts = tf.nest.flatten(state)
        marks = [] if lengths is None else [mark_steps(inputs, lengths)]

        def step_of_all(inputs: Tensors, parts: Tensors) -> tuple[Tensors, Tensors]:
            output, new = step(inputs[0], tf.nest.pack_sequence_as(state, parts))
            news = tf.nest.flatten(new)
            if lengths is not None:
                news = [tf.where_v2(inputs[1] > 0, value, part) for value, part in zip(news, parts)]
            return [output], news

        outputs, parts = scan_times(step_of_all, [inputs, *marks], parts, [self.output_size])
        return outputs[0], tf.nest.pack_sequence_as(state, parts)

    def zero_state(self, batch_size: int | tf.Tensor, dtype: tf.DType) -> Any:
        """Returns a state of zeros with the cell's structure."""
        return zero_state(self.state_size, batch_size, dtype)

    def variables_for(self, input_size: int, dtype: tf.DType) -> Variables:
        """Returns the variables in the scope of the cell, which the first call creates.

        Args:
            input_size: the size of an input.
            dtype: that of the inputs.
        """
        known = self._scopes.setdefault(outermost_graph(), set())
        around = tf.get_variable_scope().name
        place = f"{around}/{self.name}" if around else self.name
        with tf.variable_scope(self.name, reuse=True if place in known else None):
            variables = self.make_variables(input_size, dtype)
        known.add(place)
        return variables

    def __call__(self, x: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Makes one step.

        Args:
            x: floating tensor `[N, C]`; C is static.
            state: the previous state: `zero_state(...)`, or the state returned by an earlier step.

        Returns:
            The output `[N, output_size]`, and the new state.

        Raises:
            TypeError: the input is not a tensor, or a part of the state is not floating.
            ValueError: the input has another rank or an unknown size, or the state does not match the cell.
        """
        call = f"{type(self).__name__}({self.name!r})"
        check_graph_mode(call)
        check_rank(call, x, 2)
        size = check_channels(call, x, 1)
        state = check_state(call, "state", state, self.state_size, x.shape[0], x.dtype)
        variables = as_tensors(self.variables_for(size, x.dtype))
        with tf.name_scope(f"{self.name}_step"):
            inputs, step = self.begin(variables, x)
            return step(inputs, state)


def as_tensors(variables: Variables) -> Variables:
    """Returns the values of variables, each read once instead of in each step of a loop."""
    return {
        name: as_tensors(value) if isinstance(value, Mapping) else tf.convert_to_tensor(value)
        for name, value in variables.items()
    }


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
