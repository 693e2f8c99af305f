"""Prediction over an input source, without arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_inputsource import InputSource

from .._errors import ConfigError
from ..towers._evaluation_tower import EvaluationTower
from ._offline_predictor import OwnSession, PredictionGraph
from ._predict_config import PredictConfig

__all__ = ["FeedfreePredictor"]


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
