"""Input from a tf.data dataset."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from .._errors import CLOSED_TOO_EARLY, NotRunningError
from .._source import NO_PAUSE, InputSource
from ..prefetch import SessionClosedError, close_in_time, session_may_be_closed
from ._dataset_iterator import DatasetIterator, is_endless

__all__ = ["TFDatasetInput"]

_log = logging.getLogger("towerpack_inputsource")

# How long the end of a run waits for the position of a dataset that is busy with its next element.
_GRACE_SECONDS = 10.0

_START: dict[str, Any] = {"iterator": None, "skip": 0}


@final
class TFDatasetInput(InputSource):
    """Reads a `tf.data.Dataset`, for any number of towers.

    Use it for data that tf.data reads and decodes by itself; give it a `prefetch()` of its own. For Python
    data, a DataFlow and `QueueInput` are the better choice: `Dataset.from_generator` has no position to save.
    `dataflow_to_dataset` makes such a dataset all the same.

    The position is saved as tf.data saves it: exactly, shuffle buffers included. A dataset that cannot be
    saved resumes by reading the consumed elements again and discarding them.

    Args:
        dataset: a dataset, or a function that makes it, called in the graph by `setup()`. A dataset made
            eagerly is brought into the graph without the resources that it has captured, such as lookup
            tables: where there are any, give the function. Elements are tuples in the order of the specs, or
            dicts by their names.
        infinite: repeat the dataset for ever. Otherwise the run ends after one pass, with `OutOfRangeError`.
        size: number of elements in one pass, for a dataset of unknown size: one that a function makes.

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
                f"TFDatasetInput reads a tf.data.Dataset, or a function that makes one, but received "
                f"{dataset!r}. For a DataFlow, write QueueInput(df)."
            )
        self._dataset = dataset
        self.infinite = infinite
        self._size = size
        self._loaded: dict[str, Any] = dict(_START)
        self._session: tf.Session = None
        self._final: dict[str, Any] | None = None
        self._over = self._abandoned = False
        # Positions that are known exactly, each with the number of takes before it.
        self._known: list[tuple[int, dict[str, Any]]] = []

    @staticmethod
    def dataflow_to_dataset(df: Iterable[Any], types: Any) -> tf2.data.Dataset:
        """Returns a dataset whose passes are those of a flow, for the operations that tf.data alone has.

        Make it in the function that `TFDatasetInput` takes. TensorFlow calls Python for each datapoint, and
        cannot save the position of such a dataset: a run that goes on reads what it has read before again.
        Where no operation of tf.data is needed, `QueueInput(df)` is faster, and goes on at once.

        Args:
            df: any iterable that can be iterated again; `reset_state` is called where it has one.
            types: for each component its dtype, or a `tf.TensorSpec` where the shape is known, too: a list or
                tuple for datapoints that are lists or tuples, a dict for those that are dicts.

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
        lists = not isinstance(types, Mapping)  # to tf.data a list is one tensor
        return tf2.data.Dataset.from_generator(
            lambda: (tuple(datapoint) if lists else datapoint for datapoint in df), output_signature=signature
        )

    @property
    def endless(self) -> bool:
        """Whether the source repeats the dataset, or the dataset itself does, if it was made eagerly."""
        return self.infinite or (isinstance(self._dataset, tf2.data.Dataset) and is_endless(self._dataset))

    def size(self) -> int | None:
        """Returns the number of elements in one pass; None where it is not known, or not before `setup()`."""
        return self._size

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position.

        Raises:
            ValueError: the state comes from another kind of source.
        """
        if set(state) != set(_START):
            raise ValueError(
                f"Received a state with {sorted(state)}, but TFDatasetInput saves {sorted(_START)}. "
                "Was the run that saved it using another input source?"
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
            return self._iterator.take()

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [_IteratorHook(self)]

    def _reset_state(self) -> None:
        if self._session is None:
            raise self._no_session("reset_state")
        self._begin(dict(_START))

    def _begin(self, position: dict[str, Any]) -> None:
        self._iterator.begin(self._session, position["iterator"], position["skip"])
        self._known = [(0, position)]

    def _state(
        self, takes: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        if self._final is not None and takes is None:
            return dict(self._final)
        if self._session is None:
            return dict(self._loaded)
        if self._abandoned:
            raise self._unknown_position()
        with paused:
            try:
                with session_may_be_closed():
                    return self._position_after(takes)
            except SessionClosedError as error:
                raise NotRunningError(CLOSED_TOO_EARLY) from error.__cause__

    def _position_after(self, takes: int | None) -> dict[str, Any]:
        taken = int(self._session.run(self._iterator.taken))
        takes = taken if takes is None else takes
        saved = self._saved()
        if saved is not None:
            self._known.append((taken, {"iterator": saved, "skip": 0}))
        # The iterator cannot go back: an earlier position is counted from the last known one before it.
        while len(self._known) > 1 and self._known[1][0] <= takes:
            self._known.pop(0)
        count, position = self._known[0]
        return {**position, "skip": position["skip"] + takes - count}

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
            "The run ended while the dataset was busy with its next element, so its position is not known. "
            "Call state_dict() between steps."
        )

    def _start(self, session: tf.Session) -> None:
        self._session, self._final = session, None
        self._over = self._abandoned = False
        close_in_time(session)
        self._begin(self._loaded)
        if self._loaded["skip"]:
            _log.info("The dataset went on after reading %d elements again.", self._loaded["skip"])
        self._loaded = dict(_START)

    def _interrupt(self) -> None:
        self._over = True

    def _abandon(self) -> None:
        # Until the element is there, the iterator answers nothing.
        self._abandoned = True

    def _finish(self) -> None:
        self._over = True
        with contextlib.suppress(NotRunningError):
            self._final = self._state()


def _spec_of(kind: Any) -> tf.TensorSpec:
    return kind if isinstance(kind, tf.TensorSpec) else tf.TensorSpec(None, tf.as_dtype(kind))


@final
class _IteratorHook(tf.train.SessionRunHook):
    """Starts the iterator with the session. It costs a step nothing: it has no before_run."""

    def __init__(self, source: TFDatasetInput) -> None:
        self._source = source

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._source._start(session)

    def end(self, session: tf.Session) -> None:
        self._source._finish()
