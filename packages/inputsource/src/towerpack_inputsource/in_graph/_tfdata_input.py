"""Input from a tf.data dataset."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from .._errors import CLOSED_TOO_EARLY, NotRunningError
from .._source import NO_PAUSE, InputSource
from ..prefetch._one_session import SessionClosedError, SourceHook, close_in_time, session_may_be_closed
from ..specs import safe_to_keep
from ._dataset_iterator import DatasetIterator, is_endless

__all__ = ["TFDatasetInput"]

_log = logging.getLogger("towerpack_inputsource")

# The maximum time that the end of a run waits for a dataset that is busy with its next element.
_GRACE_SECONDS = 10.0

_START: dict[str, Any] = {"iterator": None, "skip": 0}


@final
class TFDatasetInput(InputSource):
    """Reads a `tf.data.Dataset`, for any number of towers.

    Use it for data that tf.data reads and decodes; add a `prefetch()` to the dataset. For Python data, a
    DataFlow and `QueueInput` are the better choice, since `Dataset.from_generator` has no position to save.
    If needed, `dataflow_to_dataset` creates such a dataset.

    tf.data saves the position exactly, including shuffle buffers. A dataset without support for saving
    resumes by reading and discarding the consumed elements.

    Args:
        dataset: a dataset, or a function that creates it, called in the graph by `setup()`. An eagerly
            created dataset is imported into the graph without captured resources, such as lookup tables: if
            it has any, pass a function. Elements are tuples in the order of the specs, or dicts by their
            names.
        infinite: repeat the dataset infinitely. Otherwise the run ends after one pass, with
            `OutOfRangeError`.
        size: number of elements in one pass, for a dataset of unknown size, such as one created by a
            function.

    Raises:
        TypeError: `dataset` is neither a dataset nor callable.

    Example:
        >>> with tf.Graph().as_default():
        ...     source = TFDatasetInput(lambda: tf.data.Dataset.range(2), infinite=False)
        ...     source.setup([tf.TensorSpec([], tf.int64, "n")])
        ...     [n] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(n))
        0
        1
    """

    def __init__(
        self, dataset: tf2.data.Dataset | Callable[[], Any], infinite: bool = True, size: int | None = None
    ) -> None:
        if not isinstance(dataset, tf2.data.Dataset) and not callable(dataset):
            raise TypeError(
                f"TFDatasetInput takes a tf.data.Dataset, or a function that creates one, but received "
                f"{dataset!r}. For a DataFlow, write QueueInput(df)."
            )
        self._dataset = dataset
        self.infinite = infinite
        self._size = size
        self._loaded: dict[str, Any] = dict(_START)
        self._session: tf.Session = None
        self._final: dict[str, Any] | None = None
        self._over = self._abandoned = False
        # Exactly known positions, each with the number of dequeues before it.
        self._known: list[tuple[int, dict[str, Any]]] = []

    @staticmethod
    def dataflow_to_dataset(df: Iterable[Any], types: Any) -> tf2.data.Dataset:
        """Returns a dataset with the passes of a flow, for operations that only tf.data supports.

        Create it in the function passed to `TFDatasetInput`. TensorFlow calls Python for each datapoint, and
        cannot save the position of such a dataset: a resumed run reads all consumed datapoints again. If you
        need no operations of tf.data, `QueueInput(df)` is faster and resumes immediately.

        Args:
            df: any re-iterable object; its `reset_state`, if any, is called.
            types: the dtype of each component, or a `tf.TensorSpec` if the shape is also known: a list or
                tuple for datapoints that are lists or tuples, a dict for dicts.

        Raises:
            TypeError: `types` is neither a list, a tuple nor a dict.

        Example:
            >>> flow = [[1, 0.5], [2, 1.5]]
            >>> dataset = TFDatasetInput.dataflow_to_dataset(flow, [tf.int64, tf.float32])
            >>> [(int(number), float(value)) for number, value in dataset]
            [(1, 0.5), (2, 1.5)]
        """
        if not isinstance(types, (list, tuple, Mapping)):
            raise TypeError(
                "dataflow_to_dataset takes a dtype or a tf.TensorSpec for each component, in a list or a "
                f"dict, but received {types!r}."
            )
        signature: Any = (
            {key: _spec_of(kind) for key, kind in types.items()}
            if isinstance(types, Mapping)
            else (tuple([_spec_of(kind) for kind in types]))
        )
        if hasattr(df, "reset_state"):
            df.reset_state()
        lists = not isinstance(types, Mapping)  # tf.data treats a list as one tensor

        def elements() -> Iterator[Any]:
            for datapoint in df:
                if lists:
                    yield tuple([_safe(value) for value in datapoint])
                else:
                    yield {name: _safe(value) for name, value in datapoint.items()}

        return tf2.data.Dataset.from_generator(elements, output_signature=signature)

    @property
    def endless(self) -> bool:
        """Whether the source repeats the dataset, or an eagerly created dataset is infinite itself."""
        return self.infinite or (isinstance(self._dataset, tf2.data.Dataset) and is_endless(self._dataset))

    def size(self) -> int | None:
        """Returns the number of elements in one pass; None if unknown, possibly only until `setup()`."""
        return self._size

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position.

        Raises:
            ValueError: the state comes from another kind of source.
        """
        if set(state) != set(_START):
            raise ValueError(
                f"Received a state with {sorted(state)}, but TFDatasetInput saves {sorted(_START)}. "
                "The run that saved it probably used another input source."
            )
        self._loaded = dict(state)

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        with tf.name_scope(None), tf.control_dependencies(None), tf.device("/cpu:0"):
            dataset = self._dataset
            if not isinstance(dataset, tf2.data.Dataset):
                dataset = dataset()
                if not isinstance(dataset, tf2.data.Dataset):
                    raise TypeError(f"The function must return a tf.data.Dataset, but returned {dataset!r}.")
            with tf.name_scope("TFDatasetInput"):
                self._iterator = DatasetIterator(dataset, self.infinite, specs)
        if self._size is None:
            self._size = self._iterator.size

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"), tf.name_scope("TFDatasetInput"):
            return self._iterator.dequeue()

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [SourceHook(start=self._start, end=self._finish)]

    def _reset_state(self) -> None:
        if self._session is None:
            raise self._no_session("reset_state")
        self._begin(dict(_START))

    def _begin(self, position: dict[str, Any]) -> None:
        self._iterator.begin(self._session, position["iterator"], position["skip"])
        self._known = [(0, position)]

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        if self._final is not None and dequeues is None:
            return dict(self._final)
        if self._session is None:
            return dict(self._loaded)
        if self._abandoned:
            raise self._unknown_position()
        with paused:
            try:
                with session_may_be_closed():
                    return self._position_after(dequeues)
            except SessionClosedError as error:
                raise NotRunningError(CLOSED_TOO_EARLY) from error.__cause__

    def _position_after(self, dequeues: int | None) -> dict[str, Any]:
        taken = int(self._session.run(self._iterator.taken))
        dequeues = taken if dequeues is None else dequeues
        saved = self._saved()
        if saved is not None:
            self._known.append((taken, {"iterator": saved, "skip": 0}))
        # The iterator cannot move back: an earlier position is counted from the previous known one.
        while len(self._known) > 1 and self._known[1][0] <= dequeues:
            self._known.pop(0)
        count, position = self._known[0]
        return {**position, "skip": position["skip"] + dequeues - count}

    def _saved(self) -> str | None:
        try:
            return self._iterator.save(self._session, _GRACE_SECONDS if self._over else None)
        except TimeoutError:
            self._abandon()
            _log.warning(
                "TFDatasetInput is still busy with its next element %g s after the end of the run; its "
                "thread will end with it.",
                _GRACE_SECONDS,
            )
            raise self._unknown_position() from None

    def _unknown_position(self) -> NotRunningError:
        return NotRunningError(
            "The run ended while the dataset was busy with its next element, so its position is unknown. "
            "Call state_dict() between steps."
        )

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._session, self._final = session, None
        self._over = self._abandoned = False
        close_in_time(session)
        self._begin(self._loaded)
        if self._loaded["skip"]:
            _log.info("Resumed the dataset after reading %d elements again.", self._loaded["skip"])
        self._loaded = dict(_START)

    def _interrupt(self) -> None:
        self._over = True

    def _abandon(self) -> None:
        # The iterator does not respond until the element is available.
        self._abandoned = True

    def _finish(self) -> None:
        self._over = True
        with contextlib.suppress(NotRunningError):
            self._final = self._state()


def _safe(value: Any) -> Any:
    return safe_to_keep(value) if isinstance(value, np.ndarray) else value


def _spec_of(kind: Any) -> tf.TensorSpec:
    return kind if isinstance(kind, tf.TensorSpec) else tf.TensorSpec(None, tf.as_dtype(kind))
