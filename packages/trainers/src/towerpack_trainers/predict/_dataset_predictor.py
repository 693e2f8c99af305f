"""Prediction for all datapoints of a flow."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, final

from .._errors import ConfigError, PredictorInputError, TrainerStateError
from ._offline_predictor import OfflinePredictor
from ._predict_config import PredictConfig

__all__ = ["OTHER_PASS", "DatasetPredictor", "SimpleDatasetPredictor", "arguments_of", "as_flow", "restarted"]

OTHER_PASS = "Another get_result() of this predictor has begun; it has one pass at a time."

_Self = TypeVar("_Self", bound="DatasetPredictor")


class DatasetPredictor(abc.ABC):
    """Predicts for each datapoint of a DataFlow, or of another iterable that can be iterated again.

    A datapoint is a list or tuple in the order of the input names, or a dict by these.
    """

    @abc.abstractmethod
    def get_result(self) -> Iterator[Any]:
        """Yields what a predictor returns for each datapoint of one pass, in their order."""

    def get_all_result(self) -> list[Any]:
        """Returns what a predictor returns for all datapoints of one pass, in their order."""
        return list(self.get_result())

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the predictor holds. A second call does nothing."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@final
class SimpleDatasetPredictor(DatasetPredictor):
    """Predicts for each datapoint of a flow, in this process; use it in a `with` block.

    Args:
        config: the model, where its values come from, and the tensors to feed and fetch.
        dataflow: a DataFlow, or another iterable that can be iterated again; `reset_state()` is called
            before each pass, if there is one.

    Raises:
        ConfigError: `dataflow` cannot be iterated again, or never ends.
        TensorNotFoundError: the model has no tensor of a wanted name.
        RestoreError, CheckpointError: the values do not fit, or cannot be read.

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
        """Yields what an `OfflinePredictor` returns for each datapoint of one pass.

        Raises:
            PredictorInputError: a datapoint is not what the model takes; the message has its number.
            TrainerStateError: it is closed, or another pass has begun.
            Exception: what the flow raised, with its own type.
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
    """Returns a flow that can be read again and again.

    Raises:
        ConfigError: `flow` is none, or never ends; the message names the `owner`.
    """
    if not hasattr(flow, "__iter__") or hasattr(flow, "__next__"):
        raise ConfigError(
            f"{owner}(dataflow=...) received {flow!r}; expected a DataFlow, or another iterable that can be "
            "iterated again, such as a list of datapoints."
        )
    if getattr(flow, "endless", False):
        raise ConfigError(
            f"{owner}(dataflow=...) received {flow!r}, which repeats for ever; expected a flow whose pass "
            "ends. Leave out the repetition, or write FixedSizeData(flow, size). An OfflinePredictor "
            "predicts for single datapoints."
        )
    return flow  # type: ignore[no-any-return]  # hasattr() tells mypy nothing


def restarted(flow: Any) -> Iterator[Any]:
    """Returns an iterator over one pass of a flow, which is reset first, if it can be."""
    if hasattr(flow, "reset_state"):
        flow.reset_state()
    return iter(flow)


def arguments_of(datapoint: Any, names: Sequence[str]) -> Sequence[Any]:
    """Returns the components of a datapoint in the order of a predictor's inputs.

    Raises:
        PredictorInputError: the datapoint is no list, tuple or dict, or a dict that lacks an input.
    """
    if isinstance(datapoint, Mapping):
        missing = [name for name in names if name not in datapoint]
        if missing:
            raise PredictorInputError(
                f"received a dict with the keys {', '.join(map(str, datapoint))}; expected one with "
                f"{', '.join(missing)}, too."
            )
        return [datapoint[name] for name in names]
    if isinstance(datapoint, (list, tuple)):
        return datapoint
    raise PredictorInputError(
        f"received {type(datapoint).__name__}; expected a list, tuple or dict of {', '.join(names)}."
    )
