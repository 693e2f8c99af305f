"""The ops of `TFDatasetInput`: an iterator over a dataset, created and saved with raw ops."""

from __future__ import annotations

import base64
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from .._errors import EmptyFlowError, SetupError, SpecError
from .._source import make_counter
from ..specs import as_declared, check_component, in_order_of

__all__ = ["DatasetIterator", "is_endless"]

_IGNORE_EXTERNAL_STATE = 1


@final
class DatasetIterator:
    """An iterator in the current graph, shared by all towers.

    It consists of raw ops, because the iterators of `tf.compat.v1.data` accept only datasets of their own
    graph and do not give access to the resource to save.

    Args:
        dataset: a dataset created in this graph or eagerly.
        infinite: repeat the dataset infinitely.
        specs: the declaration of its elements.

    Attributes:
        size: number of elements in one pass, or None if unknown.
        taken: number of elements taken, as a tensor.

    Raises:
        EmptyFlowError: the dataset is repeated but has no element.
        SetupError: the dataset belongs to another graph.
        SpecError: the elements do not match the specs, or the dataset cannot be imported into the graph.
    """

    def __init__(self, dataset: Any, infinite: bool, specs: Sequence[tf.TensorSpec]) -> None:
        self._specs = specs
        self._can_be_saved = True
        flat = tf.nest.flatten(dataset.element_spec)
        self._order = _order_of(dataset.element_spec, flat, specs)
        eager = hasattr(tf2.data.experimental.to_variant(dataset), "numpy")
        self.size = _eagerly(lambda: _size_of(dataset)) if eager else None
        if infinite and self.size == 0:
            raise EmptyFlowError(
                f"{dataset!r} has no element, but the input repeats it. Check its source and filters."
            )
        # The feeds of the initializer: TensorFlow 2.21 would constant-fold the dataset and fail.
        self._feeds: dict[tf.Tensor, bytes] = {}
        inside = self._imported(dataset) if eager else _checked_graph(dataset)
        self._make_ops(inside.repeat() if infinite else inside, flat)

    def _imported(self, dataset: Any) -> Any:
        graph_def = tf.placeholder(tf.string, [], "dataset")
        self._feeds[graph_def] = _eagerly(lambda: _serialized(dataset))
        variant = tf.raw_ops.DatasetFromGraph(graph_def=graph_def)
        return tf2.data.experimental.from_variant(variant, dataset.element_spec)

    def _make_ops(self, dataset: Any, flat: Sequence[tf.TensorSpec]) -> None:
        self._count = make_counter("taken")
        self.taken = self._count.read_value()
        self._signature = {
            "output_types": [element.dtype for element in flat],
            "output_shapes": [element.shape for element in flat],
        }
        # The counter's name is unique in the graph.
        self._iterator = tf.raw_ops.IteratorV2(
            shared_name=self._count.op.name + "/iterator", container="", **self._signature
        )
        variant = tf2.data.experimental.to_variant(dataset)
        self._make = tf.raw_ops.MakeIterator(dataset=variant, iterator=self._iterator)
        self._skip = self._next()[0].op
        state = tf.raw_ops.SerializeIterator(resource_handle=self._iterator)
        self._save = tf.io.serialize_tensor(state)
        self._saved = tf.placeholder(tf.string, [], "saved")
        self._restore = tf.raw_ops.DeserializeIterator(
            resource_handle=self._iterator, serialized=tf.io.parse_tensor(self._saved, tf.variant)
        )

    def dequeue(self) -> list[tf.Tensor]:
        """Adds a dequeue of the next element to the current graph, in the order of the specs."""
        tensors = self._next()
        with tf.control_dependencies(tensors), tf.device("/cpu:0"):
            counted = self._count.assign_add(1, read_value=False)
        with tf.control_dependencies([counted]):
            return [
                tf.identity(as_declared(tensors[place], spec), spec.name)
                for place, spec in zip(self._order, self._specs)
            ]

    def begin(self, session: tf.Session, saved: str | None = None, skip: int = 0) -> None:
        """Starts at the first element or at a saved position, and skips elements.

        Args:
            session: the live session.
            saved: the result of `save()`; None for the first element.
            skip: number of elements to read and discard from that position.
        """
        session.run([self._make, self._count.initializer], self._feeds)
        if saved is not None:
            session.run(self._restore, {self._saved: base64.b64decode(saved)})
        for _ in range(skip):
            session.run(self._skip)

    def save(self, session: tf.Session, seconds: float | None = None) -> str | None:
        """Returns the position as text, or None if the dataset does not support saving.

        Args:
            session: the live session.
            seconds: the maximum time to wait for an iterator that is busy with its next element; None:
                unlimited.

        Raises:
            TimeoutError: the iterator is busy for a longer time.
        """
        if not self._can_be_saved:
            return None
        try:
            saved = _within(seconds, lambda: session.run(self._save))
            return base64.b64encode(saved).decode("ascii")
        except (tf.errors.UnimplementedError, tf.errors.FailedPreconditionError):
            self._can_be_saved = False  # TensorFlow logs each attempt
            return None

    def _next(self) -> list[tf.Tensor]:
        return list(tf.raw_ops.IteratorGetNext(iterator=self._iterator, **self._signature))


def _order_of(structure: Any, flat: Sequence[Any], specs: Sequence[tf.TensorSpec]) -> list[int]:
    """Returns, for each spec, the index of its component in the flat element."""
    giver = "The dataset"
    places = in_order_of(specs, tf.nest.pack_sequence_as(structure, range(len(flat))), giver)
    for place, spec in zip(places, specs):
        if not isinstance(place, int) or not isinstance(flat[place], tf.TensorSpec):
            raise SpecError(
                f"{giver} gives {structure}, but the component for {spec.name!r} is not a single dense "
                "tensor. Convert it with dataset.map()."
            )
        check_component(spec, flat[place].dtype, flat[place].shape, giver)
    return places


def _checked_graph(dataset: Any) -> Any:
    if tf2.data.experimental.to_variant(dataset).graph is not tf.get_default_graph():
        raise SetupError(
            "The dataset was created in a different graph than that of setup(). Create it eagerly, or pass "
            "a function that creates it: TFDatasetInput(lambda: tf.data.Dataset...)."
        )
    return dataset


def _serialized(dataset: Any) -> bytes:
    variant = tf2.data.experimental.to_variant(dataset)
    try:
        graph_def = tf2.raw_ops.DatasetToGraphV2(
            input_dataset=variant, external_state_policy=_IGNORE_EXTERNAL_STATE
        )
    except tf.errors.OpError as error:
        raise SpecError(
            f"The dataset was created eagerly and cannot be imported into the graph: {error.message} Pass a "
            "function that creates it there: TFDatasetInput(lambda: tf.data.Dataset...)."
        ) from error
    return bytes(graph_def.numpy())


def _size_of(dataset: Any) -> int | None:
    size = int(dataset.cardinality().numpy())
    return size if size >= 0 else None


def is_endless(dataset: Any) -> bool:
    """Returns whether an eagerly created dataset is known to be infinite."""
    if not hasattr(tf2.data.experimental.to_variant(dataset), "numpy"):
        return False
    return bool(_eagerly(lambda: dataset.cardinality().numpy()) == tf2.data.INFINITE_CARDINALITY)


def _eagerly(function: Callable[[], Any]) -> Any:
    """Calls a function in eager mode while a graph is being built in this thread.

    TensorFlow stores the mode per thread, and has no public API to return to eager mode inside of a graph.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "towerpack-eager") as executor:
        return executor.submit(function).result()


def _within(seconds: float | None, function: Callable[[], Any]) -> Any:
    """Calls a function; with a time limit, in a separate thread that may continue after the limit."""
    if seconds is None:
        return function()
    answer: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def call() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=call, name="towerpack-position", daemon=True).start()
    return answer.result(seconds)
