"""The graph and the session of predictors that need no trainer."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeVar, final

import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._errors import TrainerStateError
from ..session import configure_process, create_session
from ..towers._predictor import Predictor, make_predictor
from ..towers._tower import Tower
from ._predict_config import PredictConfig
from ._prediction_towers import add_prediction_tower

__all__ = ["OwnSession", "PredictionGraph"]

_Self = TypeVar("_Self", bound="OwnSession")


@final
class PredictionGraph:
    """A graph with replicas of a model, and later the session with its values.

    Args:
        owner: the class of the predictor, for messages.
        config: the model and the source of its values.
        devices: the devices of the replicas.

    Attributes:
        graph: the graph; final after `open`.
        function: the model's tower function.
    """

    def __init__(self, owner: str, config: PredictConfig, devices: Sequence[str] = ()) -> None:
        self._owner, self._config, self._closed = owner, config, False
        self._sess: tf.Session = None
        self._options = config.make_session_config(devices)
        configure_process(self._options)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.function = config.make_tower_func()

    def add_tower(
        self, device: str | None = None, inputs: Sequence[tf.Tensor] | None = None, name: str = ""
    ) -> Tower:
        """Adds a replica, which shares the variables of the first one."""
        reuse = True if self.function.towers else None
        context = TowerContext(name, is_training=False, reuse=reuse)
        with self.graph.as_default():
            return add_prediction_tower(self.function, context, device, inputs)

    def predictor_of(self, tower: Tower) -> Predictor:
        """Makes the predictor of one replica.

        Raises:
            TensorNotFoundError: the model has no tensor of a requested name.
        """
        names, outputs = self.input_names(), self._config.output_names
        return make_predictor(self.get_session, tower, names, outputs, self._config.return_input)

    def input_names(self) -> Sequence[str]:
        """Returns the names of the tensors to feed."""
        names = self._config.input_names
        return [spec.name for spec in self.function.specs] if names is None else names

    def open(self) -> None:
        """Creates the session, and restores the values.

        Raises:
            RestoreError, CheckpointError: the values do not match, or cannot be read.
        """
        self._sess = create_session(self.graph, self._options)
        try:
            self._config.restore(self._sess)
        except BaseException:
            self._sess.close()
            raise

    def get_session(self) -> tf.Session:
        """Returns the session.

        Raises:
            TrainerStateError: the predictor is closed.
        """
        if self._closed:
            raise TrainerStateError(f"This {self._owner} is closed. Call it inside its `with` block.")
        return self._sess

    def close(self) -> None:
        """Closes the session."""
        self._closed = True
        if self._sess is not None:
            self._sess.close()


class OwnSession(abc.ABC):
    """The base class of predictors with their own session; use them in a `with` block.

    Attributes:
        graph: the graph of the evaluation replicas; it is final.
    """

    def __init__(self, model: PredictionGraph) -> None:
        self._model, self.graph = model, model.graph

    @abc.abstractmethod
    def __call__(self, *arrays: Any) -> Any:
        """Predicts."""

    @property
    def sess(self) -> tf.Session:
        """The session.

        Raises:
            TrainerStateError: the predictor is closed.
        """
        return self._model.get_session()

    @property
    def session(self) -> tf.Session:
        """The same as `sess`."""
        return self.sess

    def close(self) -> None:
        """Closes the session. A second call does nothing."""
        self._model.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
