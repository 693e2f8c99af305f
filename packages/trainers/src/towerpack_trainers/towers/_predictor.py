"""Prediction in one session call, as cheap as TensorFlow allows."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable
from towerpack_layers import TowerContext

from .._errors import ConfigError, PredictorInputError, TrainerStateError
from ._denormals import as_in_threads, can_flush_denormals
from ._devices import check_devices, note_devices
from ._tower import Tower, TowerFunc

__all__ = [
    "FasterCall",
    "PredictionTowers",
    "Predictor",
    "add_prediction_tower",
    "compile_faster",
    "compile_outputs",
    "device_name",
    "make_predictor",
]

_IN_CALLING_THREAD = tf.RunOptions(inter_op_thread_pool=-1)


class _HasTensors(Protocol):
    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]: ...


def make_predictor(
    get_session: Callable[[], tf.Session],
    tower: _HasTensors,
    input_names: Sequence[str],
    output_names: Sequence[str],
    return_input: bool = False,
) -> Predictor:
    """Makes a predictor from names; all predictors are made here, or from the results.

    Args:
        get_session: called at each prediction.
        tower: finds tensors by name.
        input_names: names of the tensors to feed.
        output_names: names of the tensors to fetch.
        return_input: see `Predictor`.

    Raises:
        TensorNotFoundError: there is no tensor of a requested name.
        TypeError: one string is given instead of names.
    """
    feeds, fetches = tower.get_tensors(input_names), tower.get_tensors(output_names)
    return Predictor(get_session, feeds, fetches, return_input=return_input)


@final
class Predictor:
    """A function from arrays to arrays, in the session current at each call; threads may share it.

    Args:
        get_session: called at each prediction, so that the session may be made later.
        inputs: tensors to feed.
        outputs: tensors to fetch.
        return_input: whether a call returns a pair: the arrays fed, and the outputs.
        in_calling_thread: whether TensorFlow runs the ops one after the other in the calling thread. That
            halves the time of a call for small models; parallel branches of large models run sequentially.

    Attributes:
        inputs: the given tensors.
        outputs: the given tensors.
        return_input: the given value.

    Raises:
        ValueError: the inputs contain a tensor twice.
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
        self._in_calling_thread = in_calling_thread
        self._checks = [InputCheck(tensor) for tensor in inputs]

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for one batch.

        Args:
            arrays: one per input.

        Returns:
            One array per output; with `return_input`, a pair of the arrays fed and these.

        Raises:
            PredictorInputError: the number of arrays, or the shape or dtype of an array, does not match the
                inputs.
        """
        sess = self._get_session()
        if sess is not self._sess:
            self._run = compile_outputs(sess, self.inputs, self.outputs, self._in_calling_thread)
            self._sess = sess
        values = self.checked(arrays)
        outputs = self._run(*values)
        return (values, outputs) if self.return_input else outputs

    def checked(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Returns the arrays to feed for one batch.

        Args:
            arrays: one per input.

        Raises:
            PredictorInputError: see `__call__`.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(tensor.op.name for tensor in self.inputs)
            raise PredictorInputError(
                f"The predictor takes {len(self.inputs)} arrays ({names}), received {len(arrays)}."
            )
        return [check(array) for check, array in zip(self._checks, arrays)]

    def in_calling_thread(self) -> Predictor:
        """Returns a predictor with the same tensors that runs its ops in the calling thread."""
        return Predictor(
            self._get_session,
            self.inputs,
            self.outputs,
            return_input=self.return_input,
            in_calling_thread=True,
        )


@final
class InputCheck:
    """Converts a value to the array of an input.

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
        """Returns the value as an array of the input's dtype.

        Whole numbers are converted to floats, and numbers to another width; no other kinds are converted.

        Raises:
            PredictorInputError: the shape or dtype of the value does not match the input.
        """
        array = value if type(value) is np.ndarray and value.dtype == self._dtype else self._convert(value)
        # TensorFlow accepts any shape for a fed tensor that is not a placeholder.
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
                f"Input {self._name!r} takes an array, but the value is not convertible: {error}"
            ) from None
        if not _keeps_kind(plain.dtype, self._dtype):
            raise PredictorInputError(
                f"Input {self._name!r} is of type {self._dtype.name}; received {plain.dtype.name}. Convert "
                f"it first, for example with np.asarray(x, np.{self._dtype.name})."
            )
        array = plain.astype(self._dtype)
        if _is_whole(plain.dtype) and _is_whole(self._dtype) and not np.array_equal(array, plain):
            raise PredictorInputError(
                f"Input {self._name!r} is of type {self._dtype.name}, which cannot represent all received "
                f"values, from {plain.min()} to {plain.max()}."
            )
        return array


def _fits(shape: tuple[int, ...], declared: Sequence[int | None]) -> bool:
    if len(shape) != len(declared):
        return False
    return all(size is None or size == have for have, size in zip(shape, declared))


_ORDER = ("b", "iu", "f", "c")


def _keeps_kind(received: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Returns whether a conversion keeps the kind of a value, or changes it to a wider kind."""
    one, other = _kind(received), _kind(wanted)
    if one in _ORDER and other in _ORDER:
        return _ORDER.index(one) <= _ORDER.index(other)
    return one == other


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "OSU":
        return "text"
    if dtype.kind == "V" and dtype.names is None:  # such as bfloat16, which NumPy does not define
        return "f" if "float" in dtype.name else "iu" if "int" in dtype.name else dtype.name
    return "iu" if dtype.kind in "iu" else dtype.kind


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu"


def compile_outputs(
    sess: tf.Session,
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor],
    in_calling_thread: bool = False,
) -> Callable[..., list[Any]]:
    """Returns a function that takes one array per input and returns one per output.

    Args:
        sess: the session.
        inputs: tensors to feed, each once.
        outputs: tensors to compute; inputs among them are returned as they are fed.
        in_calling_thread: whether ops run in the calling thread instead of TensorFlow's threads.
    """
    # TensorFlow computes no tensor twice in one call, and no fed tensor.
    fed = {tensor.name: index for index, tensor in enumerate(inputs)}
    fetched = {tensor.name: tensor for tensor in outputs if tensor.name not in fed}
    order = [*fed, *fetched]
    places = [order.index(tensor.name) for tensor in outputs]
    run: Callable[..., list[Any]] = _nothing
    if fetched:  # TensorFlow cannot make a call without ops
        options = _IN_CALLING_THREAD if in_calling_thread else None
        run = fast_callable(sess, feeds=inputs, fetches=list(fetched.values()), options=options)
        run = as_in_threads(run) if in_calling_thread else run

    def call(*values: Any) -> list[Any]:
        found = [*values, *run(*values)]
        return [found[place] for place in places]

    return call


def compile_faster(sess: tf.Session, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> FasterCall:
    """Returns the function of `compile_outputs`, with the ops in TensorFlow's threads or the calling one.

    The results are equal, so the calling thread is not tried on systems where they may differ.
    """
    usual = compile_outputs(sess, inputs, outputs)
    if not can_flush_denormals():
        return FasterCall(usual, lambda: usual)
    return FasterCall(usual, lambda: compile_outputs(sess, inputs, outputs, in_calling_thread=True))


# Of each function: the number of calls, and of those among them that are not timed, since they prepare it.
_CALLS, _FIRST_CALLS = 7, 2
# TensorFlow's threads cost about 0.1 ms in a call, and a second function takes time to prepare.
_LONGEST_CALL = 1e-3  # seconds


@final
class FasterCall:
    """Calls one of two functions with the same results: the faster one in the first calls.

    Args:
        usual: a function; it is kept if its calls take longer than a millisecond.
        make_other: makes the other function.

    Example:
        >>> call = FasterCall(lambda x: x + 1, lambda: lambda x: 1 + x)
        >>> [call(x) for x in range(3)]
        [1, 2, 3]
    """

    def __init__(self, usual: Callable[..., Any], make_other: Callable[[], Callable[..., Any]]) -> None:
        self._usual, self._make_other = usual, make_other
        self._timed = usual
        self._calls, self._shortest, self._shortest_usual = 0, math.inf, math.inf
        self._chosen: Callable[..., Any] | None = None

    @property
    def shortest(self) -> float:
        """The time of the shortest call of the chosen function, in seconds; infinite before the choice."""
        return math.inf if self._chosen is None else self._shortest

    @property
    def has_other(self) -> bool:
        """Whether the other function was chosen."""
        return self._chosen is not None and self._chosen is not self._usual

    def __call__(self, *arguments: Any) -> Any:
        """Returns the function's result."""
        if self._chosen is not None:
            return self._chosen(*arguments)
        begin = time.perf_counter()
        result = self._timed(*arguments)
        self._note(time.perf_counter() - begin)
        return result

    def _note(self, seconds: float) -> None:
        self._calls += 1
        if self._calls > _FIRST_CALLS:
            self._shortest = min(self._shortest, seconds)
        if self._calls < _CALLS:
            return
        if self._timed is not self._usual:
            self._chosen = self._timed if self._shortest < self._shortest_usual else self._usual
            self._shortest = min(self._shortest, self._shortest_usual)
        elif self._shortest > _LONGEST_CALL:
            self._chosen = self._usual
        else:
            self._calls, self._shortest, self._shortest_usual = 0, math.inf, self._shortest
            self._timed = self._make_other()


def _nothing(*values: Any) -> list[Any]:
    return []


def device_name(device: int | str) -> str:
    """Returns the name of a device, which may be given as the index of a GPU, or as -1 for the CPU.

    Raises:
        ConfigError: the device is invalid or does not exist.
    """
    if isinstance(device, int) and not isinstance(device, bool) and device >= -1:
        device = "/cpu:0" if device == -1 else f"/gpu:{device}"
    if not isinstance(device, str):
        raise ConfigError(
            f'device={device!r}: expected the number of a GPU, -1 for the CPU, or a name such as "/gpu:1".'
        )
    return check_devices([device])[0]


def add_prediction_tower(
    function: TowerFunc,
    context: TowerContext,
    device: str | None = None,
    inputs: Sequence[tf.Tensor] | None = None,
) -> Tower:
    """Adds a replica to the current graph.

    Args:
        function: the model.
        context: its tower context.
        device: the device of the replica; None lets TensorFlow choose.
        inputs: its input tensors; None: placeholders.
    """
    note_devices([] if device is None else [device])
    with contextlib.nullcontext() if device is None else tf.device(device):
        if inputs is None:
            inputs = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in function.specs]
        return function.build(context, inputs)


@final
class PredictionTowers:
    """The predictors of a trainer: one replica for each device, one callable for each set of tensors.

    Args:
        function: the trainer's tower function; its variables must exist when the first predictor is made.
        graph: the trainer's graph.
        scope: makes the context in which to build.
    """

    def __init__(
        self, function: TowerFunc, graph: tf.Graph, scope: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._function, self._graph, self._scope = function, graph, scope
        self._towers: dict[Any, Tower] = {}
        self._predictors: dict[Any, Predictor] = {}

    def get_predictor(
        self,
        get_session: Callable[[], tf.Session],
        input_names: Sequence[str],
        output_names: Sequence[str],
        device: int | str | None,
    ) -> Predictor:
        """Returns the predictor for the given tensors on a device; see `TowerTrainer.get_predictor`."""
        name = None if device is None else device_name(device)
        key = None if name is None else _canonical(name)
        tower = self._towers.get(key) or self._towers.setdefault(key, self._build(name))
        made = make_predictor(get_session, tower, input_names, output_names)
        tensors = tuple(tuple(tensor.name for tensor in group) for group in (made.inputs, made.outputs))
        return self._predictors.setdefault((key, tensors), made)

    def _build(self, device: str | None) -> Tower:
        if self._graph.finalized:
            raise TrainerStateError("The graph is final. Call get_predictor in a callback's _setup_graph.")
        with self._scope():
            name = self._graph.unique_name("tower-pred", mark_as_used=False)
            context = TowerContext(name, is_training=False, reuse=True)
            return add_prediction_tower(self._function, context, device)


def _canonical(device: str) -> tuple[Any, ...]:
    """Returns an equal value for all spellings of a device."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task, spec.device_type.upper(), spec.device_index or 0
