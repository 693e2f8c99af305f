"""Prediction for all datapoints of a flow or of an input source."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, final

import tensorflow.compat.v1 as tf

from towerpack_inputsource import InputSource

from .._errors import ConfigError, PredictorInputError, TrainerStateError
from ..towers._batch_calls import READ_AHEAD, BatchCalls, BatchCopies
from ..towers._evaluation_tower import EvaluationTower
from ._offline_predictor import OwnSession, PredictionGraph
from ._predict_config import PredictConfig

__all__ = [
    "OTHER_PASS",
    "DatasetPredictor",
    "FeedfreePredictor",
    "SimpleDatasetPredictor",
    "arguments_of",
    "as_flow",
    "restarted",
]

OTHER_PASS = "Another get_result() of this predictor has begun; it supports one pass at a time."

_Self = TypeVar("_Self", bound="DatasetPredictor")


class DatasetPredictor(abc.ABC):
    """Predicts for each datapoint of a DataFlow, or of another iterable that can be iterated again.

    A datapoint is a list or tuple in the order of the input names, or a dict keyed by them.
    """

    @abc.abstractmethod
    def get_result(self) -> Iterator[Any]:
        """Yields the prediction for each datapoint of one pass, in order."""

    def get_all_result(self) -> list[Any]:
        """Returns the predictions for all datapoints of one pass, in order."""
        return list(self.get_result())

    @abc.abstractmethod
    def close(self) -> None:
        """Frees the resources of the predictor. A second call does nothing."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@final
class SimpleDatasetPredictor(DatasetPredictor):
    """Predicts for each datapoint of a flow, in this process; use it in a `with` block.

    Args:
        config: the model, the source of its values, and the tensors to feed and fetch.
        dataflow: a DataFlow, or another iterable that can be iterated again; `reset_state()` is called
            before each pass, if it exists.

    Raises:
        ConfigError: `dataflow` cannot be iterated again, or never ends.
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.

    Example:
        ```python
        with SimpleDatasetPredictor(config, BatchData(test_flow, 64, remainder=True)) as predictor:
            for (logits,) in predictor.get_result():
                ...
        ```
    """

    def __init__(self, config: PredictConfig, dataflow: Iterable[Any]) -> None:
        self._flow = as_flow(type(self).__name__, dataflow)
        self._model = model = PredictionGraph(type(self).__name__, config)
        self._predict = predict = model.predictor_of(model.add_tower())
        with self._model.graph.as_default():
            copies = BatchCopies.of(predict.inputs, predict.outputs, "batch")
        model.open()
        self._calls = BatchCalls.of(model.get_session(), predict.inputs, predict.outputs, copies)
        self._names = [tensor.op.name for tensor in predict.inputs]
        self._passes = 0

    def get_result(self) -> Iterator[Any]:
        """Yields the result of an `OfflinePredictor` for each datapoint of one pass.

        Several small datapoints of an addressable flow may be predicted before the first result is yielded.

        Raises:
            PredictorInputError: a datapoint does not match the model; the message has its number.
            TrainerStateError: the predictor is closed, or another pass has begun.
            Exception: an error of the flow, with its original type.
        """
        self._passes += 1
        number_of_pass, number = self._passes, 0
        for datapoints in self._together():
            arrays, failure = self._checked(datapoints, number)
            number += len(arrays)
            self._check_pass(number_of_pass)
            for values, outputs in zip(arrays, self._calls(arrays)):
                yield (values, outputs) if self._predict.return_input else outputs
                self._check_pass(number_of_pass)
            if failure is not None:
                raise failure from None

    def close(self) -> None:
        """Closes the session. A second call does nothing."""
        self._model.close()

    def _check_pass(self, number: int) -> None:
        self._model.get_session()
        if self._passes != number:
            raise TrainerStateError(OTHER_PASS)

    def _together(self) -> Iterator[Sequence[Any]]:
        """Yields the datapoints of one pass, those together that one call can predict."""
        flow: Any = self._flow
        may_read_ahead = getattr(flow, "addressable", False) and not getattr(flow, "live", False)
        if hasattr(flow, "reset_state"):
            flow.reset_state()
        blocks = flow.iter_blocks(READ_AHEAD, 1) if may_read_ahead and hasattr(flow, "iter_blocks") else None
        if blocks is None:
            yield from ([datapoint] for datapoint in flow)
            return
        for block in blocks:
            datapoints, done = _datapoints_in(block), 0
            while done < len(datapoints):
                begun, done = done, done + self._calls.most
                yield datapoints[begun:done]

    def _checked(
        self, datapoints: Sequence[Any], number: int
    ) -> tuple[list[list[Any]], PredictorInputError | None]:
        """Returns the arrays of datapoints up to the first invalid one, and the error of that one."""
        arrays: list[list[Any]] = []
        for datapoint in datapoints:
            try:
                arrays.append(self._predict.checked(arguments_of(datapoint, self._names)))
            except PredictorInputError as error:
                return arrays, PredictorInputError(f"Datapoint {number + len(arrays)}: {error}")
        return arrays, None


def _datapoints_in(block: Any) -> list[Any]:
    """Returns the datapoints of a block of `DataFlow.iter_blocks`; itself if it has no components."""
    if not block:
        return [block]
    if isinstance(block, Mapping):
        return [dict(zip(block, values)) for values in zip(*block.values())]
    return list(zip(*block))


def as_flow(owner: str, flow: Any) -> Iterable[Any]:
    """Returns a flow that can be read repeatedly.

    Raises:
        ConfigError: `flow` is not such a flow, or never ends; the message names the `owner`.
    """
    if not hasattr(flow, "__iter__") or hasattr(flow, "__next__"):
        raise ConfigError(
            f"{owner}(dataflow=...) received {flow!r}; expected a DataFlow, or another iterable that can be "
            "iterated again, such as a list of datapoints."
        )
    if getattr(flow, "endless", False):
        raise ConfigError(
            f"{owner}(dataflow=...) received {flow!r}, which repeats for ever; expected a flow with a finite "
            "pass. Remove the repetition, or write FixedSizeData(flow, size). To predict for single "
            "datapoints, use an OfflinePredictor."
        )
    return flow  # type: ignore[no-any-return]  # hasattr() tells mypy nothing


def restarted(flow: Any) -> Iterator[Any]:
    """Returns an iterator over one pass of a flow, after a reset if the flow supports it."""
    if hasattr(flow, "reset_state"):
        flow.reset_state()
    return iter(flow)


def arguments_of(datapoint: Any, names: Sequence[str]) -> Sequence[Any]:
    """Returns the components of a datapoint in the order of a predictor's inputs.

    Raises:
        PredictorInputError: the datapoint is not a list, tuple or dict, or is a dict without one of the
            inputs.
    """
    if isinstance(datapoint, Mapping):
        missing = [name for name in names if name not in datapoint]
        if missing:
            raise PredictorInputError(
                f"received a dict with the keys {', '.join(map(str, datapoint))}; expected also "
                f"{', '.join(missing)}."
            )
        return [datapoint[name] for name in names]
    if isinstance(datapoint, (list, tuple)):
        return datapoint
    raise PredictorInputError(
        f"received {type(datapoint).__name__}; expected a list, tuple or dict of {', '.join(names)}."
    )


@final
class FeedfreePredictor(OwnSession):
    """Predicts for the next datapoint of an `InputSource` with each call.

    Args:
        config: the model, the source of its values, and the tensors to fetch; `input_names` is used only with
            `return_input`.
        source: brings in the model's inputs, such as `QueueInput(flow, infinite=False)`; it may serve only
            this predictor.

    Attributes:
        graph: the graph of the evaluation replica; it is final.

    Raises:
        ConfigError: `source` is not an `InputSource`.
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.

    Example:
        >>> from towerpack_inputsource import QueueInput
        >>> double = PredictConfig(
        ...     tower_func=lambda x: tf.multiply(x, 2, name="doubled"),
        ...     input_signature=[tf.TensorSpec([2], tf.float32, "x")],
        ...     output_names=["doubled"],
        ... )
        >>> with FeedfreePredictor(double, QueueInput([[[1.0, 3.0]]], infinite=False)) as predict:
        ...     print(predict())
        [array([2., 6.], dtype=float32)]
    """

    def __init__(self, config: PredictConfig, source: InputSource) -> None:
        if not isinstance(source, InputSource):
            raise ConfigError(
                f"FeedfreePredictor(source=...) received {source!r}; expected an InputSource, such as "
                "QueueInput(flow, infinite=False). For a DataFlow, use SimpleDatasetPredictor."
            )
        model = PredictionGraph(type(self).__name__, config)
        super().__init__(model)
        with self.graph.as_default():
            source.setup(model.function.specs)
            inputs = source.get_input_tensors()
            tower = model.add_tower(inputs=inputs)
            fed = tower.get_tensors(model.input_names()) if config.return_input else []
            self._fetches = [fed, tower.get_tensors(config.output_names)]
            self._tower = EvaluationTower(tower, source, {tensor.ref(): tensor for tensor in inputs})
        model.open()
        self._return_input, self._coord = config.return_input, tf.train.Coordinator()
        self._tower.start(self.sess, self._coord)
        self._started = True
        self._pass: Iterator[Any] = self._tower.evaluate(self._fetches)

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for the next datapoint.

        Args:
            arrays: must be empty.

        Returns:
            One array per output name; with `return_input`, a pair of the inputs and these.

        Raises:
            tf.errors.OutOfRangeError: the input ended; `reset_state` begins a new pass.
            TypeError: an array is given.
            TrainerStateError: the predictor is closed.
            Exception: an error of the source's data, with its original type.
        """
        if arrays:
            raise TypeError(f"FeedfreePredictor takes no arguments; received {len(arrays)} arrays.")
        self._model.get_session()
        for (inputs, outputs), _ in self._pass:
            return (inputs, outputs) if self._return_input else outputs
        raise tf.errors.OutOfRangeError(
            None, None, "The input of the FeedfreePredictor ended. Call reset_state() for a new pass."
        )

    def reset_state(self) -> None:
        """Begins a new pass of the input.

        Raises:
            TrainerStateError: the predictor is closed.
        """
        self._model.get_session()
        self._pass = self._tower.evaluate(self._fetches)

    def close(self) -> None:
        """Stops the input, and closes the session. A second call does nothing."""
        if self._started:
            self._started = False
            self._tower.stop()
            self._coord.request_stop()
        super().close()
