"""The base class of recurrent cells: one step of a sequence, and the shared variables of all steps."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_channels, check_rank
from ..registry import check_graph_mode
from ..tower import outermost_graph
from ._scan_times import Tensors, scan_times
from ._sequences import mark_steps
from ._states import check_state, zero_state

__all__ = ["RNNCell", "Step", "Variables", "as_tensors"]

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
