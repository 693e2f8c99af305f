"""Prediction in a graph and session of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._argument_checks import instance_of, refuse_assignment
from .._errors import TrainerStateError
from ..restore import SessionInit
from ..session import configure_process, create_session, default_session_config
from ..towers._model_desc import ModelDesc
from ..towers._predictor import Predictor
from ..towers._tower import TowerFunc

__all__ = ["OfflinePredictor", "PredictConfig"]


@final
@refuse_assignment
@attrs.frozen(kw_only=True)
class PredictConfig:
    """The model, the values and the tensors of an `OfflinePredictor`.

    Args:
        model: the model; its evaluation replica is built.
        session_init: where the variables' values come from, such as `SaverRestore("train_log/run/latest")`.
        output_names: names of the tensors to fetch, as the model names them.
        input_names: names of the `inputs()` to feed; None: all.
    """

    model: ModelDesc = attrs.field(validator=instance_of(ModelDesc, "a ModelDesc object"))
    session_init: SessionInit = attrs.field(
        validator=instance_of(SessionInit, "a SessionInit, such as SaverRestore(path)")
    )
    output_names: Sequence[str]
    input_names: Sequence[str] | None = None


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
        self._graph, options = tf.Graph(), default_session_config()
        configure_process(options)
        with self._graph.as_default():
            function = TowerFunc(config.model.build_graph, config.model.inputs())
            placeholders = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in function.specs]
            tower = function.build(TowerContext("", is_training=False), placeholders)
            names = (
                [spec.name for spec in function.specs] if config.input_names is None else config.input_names
            )
            feeds, fetches = tower.get_tensors(names), tower.get_tensors(config.output_names)
        self._sess, self._closed = create_session(self._graph, options), False
        try:
            config.session_init.restore(self._sess)
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
