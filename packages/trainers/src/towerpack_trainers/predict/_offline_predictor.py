"""Prediction in a graph and session of its own."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._errors import TrainerStateError
from ..session import configure_process, create_session
from ..towers._predictor import Predictor
from ._predict_config import PredictConfig

__all__ = ["OfflinePredictor"]


@final
class OfflinePredictor:
    """Predicts with arrays of a batch; holds a session, so use it in a `with` block.

    Args:
        config: the model, where its values come from, and the tensors to feed and fetch.

    Attributes:
        inputs: the tensors that are fed.
        outputs: the tensors that are fetched.

    Raises:
        TensorNotFoundError: the model has no tensor of a wanted name.
        RestoreError, CheckpointError: the values do not fit, or cannot be read.
    """

    def __init__(self, config: PredictConfig) -> None:
        self._graph, options = tf.Graph(), config.make_session_config()
        configure_process(options)
        with self._graph.as_default():
            function = config.make_tower_func()
            placeholders = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in function.specs]
            tower = function.build(TowerContext("", is_training=False), placeholders)
            names = (
                [spec.name for spec in function.specs] if config.input_names is None else config.input_names
            )
            feeds, fetches = tower.get_tensors(names), tower.get_tensors(config.output_names)
        self._sess, self._closed = create_session(self._graph, options), False
        try:
            config.restore(self._sess)
        except BaseException:
            self._sess.close()
            raise
        self._predict = Predictor(self._open_session, feeds, fetches)
        self.inputs, self.outputs = self._predict.inputs, self._predict.outputs

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        """Predicts for one batch.

        Args:
            arrays: one per input name.

        Returns:
            One array per output name.

        Raises:
            TypeError: another number of arrays is given.
            ValueError: an array has a shape that its input does not take.
            TrainerStateError: it is closed.
        """
        return self._predict(*arrays)

    def _open_session(self) -> tf.Session:
        if self._closed:
            raise TrainerStateError("This OfflinePredictor is closed. Call it inside of its `with` block.")
        return self._sess

    def close(self) -> None:
        """Closes the session."""
        self._closed = True
        self._sess.close()

    def __enter__(self) -> OfflinePredictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
