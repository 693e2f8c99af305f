"""Prediction in a separate graph and session."""

from __future__ import annotations

from typing import Any, final

from ..towers._predictor import Predictor
from ._predict_config import PredictConfig
from ._prediction_graph import OwnSession, PredictionGraph

__all__ = ["OfflinePredictor"]


@final
class OfflinePredictor(OwnSession):
    """Predicts for a batch of arrays. It holds a session, so use it in a `with` block.

    Several threads may call it.

    Args:
        config: the model, the source of its values, and the tensors to feed and fetch.

    Attributes:
        inputs: the tensors to feed.
        outputs: the tensors to fetch.
        return_input: whether a call returns a pair: the arrays fed, and the outputs.
        graph: the graph of the evaluation replica; it is final.

    Raises:
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.

    Example:
        >>> import numpy as np
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_trainers import DictRestore, OfflinePredictor, PredictConfig
        >>> def line(x):
        ...     return tf.multiply(tf.get_variable("slope", []), x, name="y")
        >>> config = PredictConfig(
        ...     tower_func=line,
        ...     input_signature=[tf.TensorSpec([None], tf.float32, "x")],
        ...     session_init=DictRestore({"slope": np.float32(2)}),
        ...     output_names=["y"],
        ... )
        >>> with OfflinePredictor(config) as predict:
        ...     print(predict([1, 2, 3]))
        [array([2., 4., 6.], dtype=float32)]
    """

    def __init__(self, config: PredictConfig) -> None:
        model = PredictionGraph(type(self).__name__, config)
        super().__init__(model)
        self._predict = model.predictor_of(model.add_tower())
        self.inputs, self.outputs = self._predict.inputs, self._predict.outputs
        self.return_input = config.return_input
        model.open()

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for one batch.

        Args:
            arrays: one per input name.

        Returns:
            One array per output name; with `return_input`, a pair of the arrays fed and these.

        Raises:
            PredictorInputError: the number of arrays, or the shape or dtype of an array, does not match the
                inputs.
            TrainerStateError: the predictor is closed.
        """
        return self._predict(*arrays)

    def in_calling_thread(self) -> Predictor:
        """Returns a function with the same tensors and session that runs its ops in the calling thread.

        TensorFlow then needs no other thread, which halves the time of a call for a small model; parallel
        branches of a large model are computed one after the other.
        """
        return self._predict.in_calling_thread()
