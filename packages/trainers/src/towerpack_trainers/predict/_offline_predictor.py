"""Prediction in a graph and session of its own."""

from __future__ import annotations

from typing import Any, final

from ..towers._predictor import Predictor
from ._predict_config import PredictConfig
from ._prediction_graph import OwnSession, PredictionGraph

__all__ = ["OfflinePredictor"]


@final
class OfflinePredictor(OwnSession):
    """Predicts with arrays of a batch; holds a session, so use it in a `with` block.

    Several threads may call it.

    Args:
        config: the model, where its values come from, and the tensors to feed and fetch.

    Attributes:
        inputs: the tensors that are fed.
        outputs: the tensors that are fetched.
        return_input: whether a call returns a pair, of the arrays fed and the outputs.
        graph: the graph of the evaluation replica; it is final.

    Raises:
        TensorNotFoundError: the model has no tensor of a wanted name.
        RestoreError, CheckpointError: the values do not fit, or cannot be read.

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
            PredictorInputError: another number of arrays is given, or one has a shape or type that its input
                does not take.
            TrainerStateError: it is closed.
        """
        return self._predict(*arrays)

    def in_calling_thread(self) -> Predictor:
        """Returns a function of the same tensors, in the same session, whose ops run in the thread of a call.

        TensorFlow then needs no other thread, which saves a small model half of a call; branches of a large
        one are not computed side by side.
        """
        return self._predict.in_calling_thread()
