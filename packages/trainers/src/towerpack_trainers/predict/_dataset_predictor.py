"""Prediction for all datapoints of a flow."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, final

from .._errors import ConfigError, PredictorInputError, TrainerStateError
from ._offline_predictor import OfflinePredictor
from ._predict_config import PredictConfig

__all__ = ["OTHER_PASS", "DatasetPredictor", "SimpleDatasetPredictor", "arguments_of", "as_flow", "restarted"]

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
        self._predict = OfflinePredictor(config)
        self._names = [tensor.op.name for tensor in self._predict.inputs]
        self._passes = 0

    def get_result(self) -> Iterator[Any]:
        """Yields the result of an `OfflinePredictor` for each datapoint of one pass.

        Raises:
            PredictorInputError: a datapoint does not match the model; the message has its number.
            TrainerStateError: the predictor is closed, or another pass has begun.
            Exception: an error of the flow, with its original type.
        """
        self._passes += 1
        number_of_pass = self._passes
        for number, datapoint in enumerate(restarted(self._flow)):
            if self._passes != number_of_pass:
                raise TrainerStateError(OTHER_PASS)
            try:
                yield self._predict(*arguments_of(datapoint, self._names))
            except PredictorInputError as error:
                raise PredictorInputError(f"Datapoint {number}: {error}") from None

    def close(self) -> None:
        """Closes the session. A second call does nothing."""
        self._predict.close()


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
