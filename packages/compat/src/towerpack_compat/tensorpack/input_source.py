"""`tensorpack.input_source`: sources that cast components to the declared dtypes, as `session.run` does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import towerpack_callbacks as callbacks
import towerpack_inputsource as sources
from towerpack_dataflow import DataFlow, MapData

__all__ = ["BatchQueueInput", "FeedInput", "InputCallback", "QueueInput", "TFDatasetInput"]


class InputCallback(callbacks.Callback):
    """Represents the callbacks that `InputSource.setup` returned; a trainer takes the source from it.

    Args:
        source: the source.
    """

    chief_only = False

    def __init__(self, source: sources.InputSource) -> None:
        self.source = source


def _add_old_methods() -> None:
    """Makes `InputSource.setup` return callbacks, and subclasses work that override Tensorpack's methods."""
    kind: Any = sources.InputSource
    before = kind.setup

    @functools.wraps(before)
    def setup(self: Any, specs: Any) -> list[Any]:
        before(self, specs)
        return list(self.get_callbacks())

    def __init_subclass__(cls: Any, /, **arguments: Any) -> None:
        super(kind, cls).__init_subclass__(**arguments)
        tensors, cls.size = vars(cls).get("_get_input_tensors"), vars(cls).get("_size", cls.size)
        if tensors is not None and tensors.__code__.co_argcount == 1:  # Towerpack passes the specs
            cls._get_input_tensors = lambda self, *_specs: tensors(self)

    kind.__init_subclass__ = classmethod(__init_subclass__)
    kind.setup = setup
    kind.get_callbacks = lambda self: [InputCallback(self), *getattr(self, "_get_callbacks", list)()]
    kind.setup_done = lambda self: self._specs is not None


_add_old_methods()


class _Cast:
    """Casts the components of a datapoint to the dtypes of the model's inputs."""

    def __init__(self) -> None:
        self._dtypes: list[np.dtype[Any]] | None = None

    def declare(self, specs: Sequence[tf.TensorSpec]) -> None:
        """Sets the dtypes of the model's inputs."""
        self._dtypes = [np.dtype(spec.dtype.as_numpy_dtype) for spec in specs]

    def __call__(self, datapoint: Any) -> Any:
        if self._dtypes is None or len(datapoint) != len(self._dtypes) or isinstance(datapoint, dict):
            return datapoint
        pairs = zip(datapoint, self._dtypes)
        return [each if dtype.kind == "O" else np.asarray(each, dtype) for each, dtype in pairs]


class _CastingSource:
    """A source that casts datapoints to the dtypes passed to `setup`."""

    def _casting(self, flow: Any) -> Any:
        self._cast = _Cast()
        return MapData(flow, self._cast) if isinstance(flow, DataFlow) else flow

    def setup(self, specs: Any) -> Any:
        self._signature = specs
        self._cast.declare(specs)
        return super().setup(specs)  # type: ignore[misc]

    def _get_input_tensors(self, specs: Any = None) -> Any:
        return super()._get_input_tensors(specs or self._signature)  # type: ignore[misc]


class FeedInput(_CastingSource, sources.FeedInput):  # type: ignore[misc]
    """Feeds a datapoint with each run.

    Args:
        ds: the flow.
        infinite: whether to repeat the flow.
    """

    def __init__(self, ds: Any, infinite: bool = True) -> None:
        super().__init__(self._casting(ds), infinite=infinite)


class QueueInput(_CastingSource, sources.QueueInput):  # type: ignore[misc]
    """Prefetches datapoints into a queue.

    Args:
        ds: the flow.
        queue: the queue to use.
    """

    def __init__(self, ds: Any, queue: Any = None) -> None:
        super().__init__(self._casting(ds), queue=queue)


class BatchQueueInput(_CastingSource, sources.BatchQueueInput):  # type: ignore[misc]
    """Prefetches single datapoints into a queue, and batches them on dequeue.

    Args:
        ds: the flow.
        batch_size: the number of datapoints in a batch.
        queue: the queue to use, with the shapes of single datapoints.
    """

    def __init__(self, ds: Any, batch_size: int, queue: Any = None) -> None:
        super().__init__(self._casting(ds), batch_size)
        self._queue = queue


class TFDatasetInput(sources.TFDatasetInput):  # type: ignore[misc]
    """Reads a `tf.data.Dataset`, or a flow through one.

    Args:
        dataset: the dataset or the flow.
    """

    def __init__(self, dataset: Any) -> None:
        def of_flow() -> Any:
            return self.dataflow_to_dataset(dataset, [spec.dtype for spec in self._signature])

        super().__init__(of_flow if isinstance(dataset, DataFlow) else dataset)

    def setup(self, specs: Any) -> Any:
        """Sets the inputs of the model, by whose dtypes a flow is read."""
        self._signature = specs
        return super().setup(specs)
