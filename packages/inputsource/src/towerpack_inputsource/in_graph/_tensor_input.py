"""Input from tensors created in the graph: by a function, or zeros to measure the cost of the real input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import SetupError, SpecError
from .._source import InputSource, check_at_least, make_counter
from ..prefetch._one_session import SourceHook
from ..specs import as_declared, check_component, in_order_of

__all__ = ["DummyConstantInput", "TensorInput"]


@final
class TensorInput(InputSource):
    """Provides tensors created by a function: random data, a reading op, a custom queue.

    The function is called once for each tower, on its device and in its name scope, so each tower has
    separate ops. Their data have no position to save.

    Args:
        get_tensors: a function without arguments; returns one tensor per spec in their order, or a dict by
            their names. Create shared ops, such as a queue, outside of it.
        size: number of dequeues in one pass. It is the length of an epoch in a training without
            `steps_per_epoch`.
        infinite: continue infinitely. Otherwise `OutOfRangeError` ends the run after `size` dequeues, and
            `reset_state()` allows as many again; without a size, the tensors themselves must end.

    Raises:
        TypeError: `get_tensors` is not callable.
        ValueError: `size` is below 1.

    Example:
        >>> with tf.Graph().as_default():
        ...     source = TensorInput(lambda: [tf.constant(7)], size=2, infinite=False)
        ...     source.setup([tf.TensorSpec([], tf.int32, "n")])
        ...     [n] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(n))
        7
        7
    """

    def __init__(
        self, get_tensors: Callable[[], Any], size: int | None = None, infinite: bool = True
    ) -> None:
        if not callable(get_tensors):
            raise TypeError(
                "TensorInput takes a function that creates the tensors of each tower, but received "
                f"{get_tensors!r}. Write TensorInput(lambda: [...])."
            )
        if size is not None:
            check_at_least(1, "size", size, "the number of dequeues in a pass")
        self._get_tensors = get_tensors
        self._size = size
        self.infinite = infinite
        self._session: tf.Session = None

    def size(self) -> int | None:
        """Returns the number of dequeues in one pass, the argument `size`."""
        return self._size

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self._graph = tf.get_default_graph()
        self._count: tf.Variable | None = None
        if self._size is not None and not self.infinite:
            with tf.name_scope(None), tf.device("/cpu:0"), tf.control_dependencies(None):
                self._count = make_counter("TensorInput/taken")

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        # With this dependency, no op that reads data runs after the last dequeue of a pass.
        with tf.control_dependencies(self._tick()):
            made = self._get_tensors()
            tensors = [self._checked(*pair) for pair in zip(specs, in_order_of(specs, made, "get_tensors()"))]
            # An existing tensor also counts as a dequeue. In a separate scope: the bare names belong to
            # placeholders, which an evaluation or a predictor in this graph feeds.
            with tf.name_scope("TensorInput"):
                return [tf.identity(tensor, spec.name) for tensor, spec in zip(tensors, specs)]

    def _tick(self) -> list[tf.Operation]:
        if self._count is None:
            return []
        with tf.device("/cpu:0"):
            return [
                tf.raw_ops.ResourceCountUpTo(resource=self._count.handle, limit=self._size, T=tf.int64).op
            ]

    def _checked(self, spec: tf.TensorSpec, made: Any) -> tf.Tensor:
        try:
            tensor = tf.convert_to_tensor(made)
        except (TypeError, ValueError) as error:
            raise SpecError(
                f"get_tensors() returned {made!r} for {spec.name!r}, not a tensor: {error}"
            ) from error
        if tensor.graph is not self._graph:
            raise SetupError(
                f"get_tensors() returned {tensor} of another graph for {spec.name!r}. Create it in the "
                "function, or in the graph of setup()."
            )
        check_component(spec, tensor.dtype, tensor.shape, "get_tensors()")
        return as_declared(tensor, spec)

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [SourceHook(start=self._start)] if self._count is not None else []

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._session = session
        self._reset_state()

    def _reset_state(self) -> None:
        if self._count is None:
            return
        if self._session is None:
            raise self._no_session("reset_state")
        self._session.run(self._count.initializer)


@final
class DummyConstantInput(InputSource):
    """Gives zeros on the tower's device, infinitely.

    Use it to find out whether the input is the bottleneck: a training that is not faster with zeros does not
    wait for data.

    Args:
        shapes: the full shape of each component, in the order of the specs; by default the shapes of the
            specs, which must then be fully known.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     source = DummyConstantInput([(2, 3)])
        ...     source.setup([tf.TensorSpec([None, 3], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     print(session.run(x).shape)
        (2, 3)
    """

    def __init__(self, shapes: Sequence[Sequence[int]] | None = None) -> None:
        self._shapes = shapes

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        declared = [spec.shape for spec in specs]
        given = declared if self._shapes is None else [tf.TensorShape(shape) for shape in self._shapes]
        if len(given) != len(specs):
            raise SpecError(f"Received {len(given)} shapes for {len(specs)} specs; give one for each.")
        for spec, shape in zip(specs, given):
            if not shape.is_fully_defined():
                raise SpecError(
                    f"The shape {shape} of {spec.name!r} is not fully known. Give the shapes to use: "
                    "DummyConstantInput(shapes=[...])."
                )
            if not spec.shape.is_compatible_with(shape):
                raise SpecError(f"The shape {shape} for {spec.name!r} contradicts the declared {spec.shape}.")
        self._full_shapes = given

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.name_scope("DummyConstantInput"):
            return [_zeros(spec, shape) for spec, shape in zip(specs, self._full_shapes)]


def _zeros(spec: tf.TensorSpec, shape: tf.TensorShape) -> tf.Tensor:
    zero = "" if spec.dtype == tf.string else False if spec.dtype == tf.bool else 0
    constant = tf.constant(zero, spec.dtype, shape, spec.name + "_zeros")
    # TensorFlow would constant-fold the start of the model over a constant, but not over a feedable tensor.
    return tf.placeholder_with_default(constant, shape, spec.name)
