"""Prediction by one session call, at as little cost as TensorFlow allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable

from .._errors import PredictorInputError

__all__ = ["Predictor", "make_predictor"]

# TensorFlow runs a call's ops in the thread that makes the call.
_IN_CALLING_THREAD = -1


class _HasTensors(Protocol):
    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]: ...


def make_predictor(
    get_session: Callable[[], tf.Session],
    tower: _HasTensors,
    input_names: Sequence[str],
    output_names: Sequence[str],
    return_input: bool = False,
) -> Predictor:
    """Makes a predictor from names; all predictors are made here, or of what is made here.

    Args:
        get_session: called at each prediction.
        tower: finds tensors by name.
        input_names: names of the tensors to feed.
        output_names: names of the tensors to fetch.
        return_input: see `Predictor`.

    Raises:
        TensorNotFoundError: there is no tensor of a wanted name.
        TypeError: one string is given instead of names.
    """
    feeds, fetches = tower.get_tensors(input_names), tower.get_tensors(output_names)
    return Predictor(get_session, feeds, fetches, return_input=return_input)


@final
class Predictor:
    """A function from arrays to arrays, in the session of the time when it is called; threads may share it.

    Args:
        get_session: called at each prediction, so that the session may be made later.
        inputs: tensors to feed.
        outputs: tensors to fetch.
        return_input: whether a call returns a pair: the list of the arrays that were fed, and the outputs.
        in_calling_thread: whether TensorFlow runs the ops one after the other in the thread of the call. That
            saves small models half of a call; branches of large ones are not computed side by side.

    Attributes:
        inputs: as given.
        outputs: as given.
        return_input: as given.

    Raises:
        ValueError: a tensor is twice among the inputs.
    """

    def __init__(
        self,
        get_session: Callable[[], tf.Session],
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
        *,
        return_input: bool = False,
        in_calling_thread: bool = False,
    ) -> None:
        names = [tensor.name for tensor in inputs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"A predictor takes each input once, received {', '.join(twice)} more than once."
            )
        self.inputs, self.outputs, self.return_input = tuple(inputs), tuple(outputs), return_input
        self._get_session = get_session
        self._sess: tf.Session = None
        self._options = tf.RunOptions(inter_op_thread_pool=_IN_CALLING_THREAD) if in_calling_thread else None
        self._checks = [InputCheck(tensor) for tensor in inputs]
        # TensorFlow computes no tensor twice in one call, nor one that it is fed.
        fed = {tensor.name: index for index, tensor in enumerate(inputs)}
        self._fetched = {tensor.name: tensor for tensor in outputs if tensor.name not in fed}
        order = [*fed, *self._fetched]
        self._places = [order.index(tensor.name) for tensor in outputs]

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for one batch.

        Args:
            arrays: one per input.

        Returns:
            One array per output; with `return_input`, a pair of the arrays fed and these.

        Raises:
            PredictorInputError: another number of arrays is given, or one has a shape or type that its input
                does not take.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(tensor.op.name for tensor in self.inputs)
            raise PredictorInputError(
                f"The predictor takes {len(self.inputs)} arrays ({names}), received {len(arrays)}."
            )
        sess = self._get_session()
        if sess is not self._sess:
            fetches = list(self._fetched.values())
            # TensorFlow makes no call that computes nothing.
            self._run = (
                fast_callable(sess, feeds=self.inputs, fetches=fetches, options=self._options)
                if fetches
                else _nothing
            )
            self._sess = sess
        values = [check(array) for check, array in zip(self._checks, arrays)]
        found = values + self._run(*values)
        outputs = [found[place] for place in self._places]
        return (values, outputs) if self.return_input else outputs

    def in_calling_thread(self) -> Predictor:
        """Returns a predictor of the same tensors whose ops run in the thread of each call."""
        return Predictor(
            self._get_session,
            self.inputs,
            self.outputs,
            return_input=self.return_input,
            in_calling_thread=True,
        )


@final
class InputCheck:
    """Makes a value the array that an input takes.

    Args:
        tensor: the input.
        without_batch: whether the values are single examples, without the input's first axis.
    """

    def __init__(self, tensor: tf.Tensor, without_batch: bool = False) -> None:
        self._name, self._dtype = tensor.op.name, np.dtype(tensor.dtype.as_numpy_dtype)
        self._owner = "An example of the predictor's input" if without_batch else "The predictor's input"
        self._shape: list[int | None] | None = None
        if tensor.shape.rank is not None:
            self._shape = tensor.shape.as_list()[1:] if without_batch else tensor.shape.as_list()

    @property
    def takes_one_shape(self) -> bool:
        """Whether all values have the same shape."""
        return self._shape is not None and None not in self._shape

    def __call__(self, value: Any) -> np.ndarray:
        """Returns the value as an array of the input's type.

        Whole numbers become floats, and numbers of another width; nothing else becomes another kind.

        Raises:
            PredictorInputError: the value has a shape or type that the input does not take.
        """
        array = value if type(value) is np.ndarray and value.dtype == self._dtype else self._convert(value)
        # Where it is fed, TensorFlow takes any shape.
        if self._shape is not None and not _fits(array.shape, self._shape):
            raise PredictorInputError(
                f"{self._owner} {self._name!r} has shape {tf.TensorShape(self._shape)}; received an array of "
                f"shape {array.shape}."
            )
        return array

    def _convert(self, value: Any) -> np.ndarray:
        try:
            plain = np.asarray(value)
        except ValueError as error:
            raise PredictorInputError(
                f"Input {self._name!r} takes an array, received none: {error}"
            ) from None
        if not _keeps_kind(plain.dtype, self._dtype):
            raise PredictorInputError(
                f"Input {self._name!r} is of type {self._dtype.name}; received {plain.dtype.name}. Convert "
                f"it first, such as by np.asarray(x, np.{self._dtype.name})."
            )
        array = plain.astype(self._dtype)
        if _is_whole(plain.dtype) and _is_whole(self._dtype) and not np.array_equal(array, plain):
            raise PredictorInputError(
                f"Input {self._name!r} is of type {self._dtype.name}, which does not hold all values "
                f"received, from {plain.min()} to {plain.max()}."
            )
        return array


def _fits(shape: tuple[int, ...], declared: Sequence[int | None]) -> bool:
    if len(shape) != len(declared):
        return False
    return all(size is None or size == have for have, size in zip(shape, declared))


_ORDER = ("b", "iu", "f", "c")


def _keeps_kind(received: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Returns whether a value keeps its kind, or becomes one of a kind that holds it."""
    one, other = _kind(received), _kind(wanted)
    if one in _ORDER and other in _ORDER:
        return _ORDER.index(one) <= _ORDER.index(other)
    return one == other


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "OSU":
        return "text"
    if dtype.kind == "V" and dtype.names is None:  # such as bfloat16, which is not NumPy's own
        return "f" if "float" in dtype.name else "iu" if "int" in dtype.name else dtype.name
    return "iu" if dtype.kind in "iu" else dtype.kind


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu"


def _nothing(*values: Any) -> list[Any]:
    return []
