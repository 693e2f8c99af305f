"""Prediction in a separate graph and session, on one device or on several."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeVar, final

import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._errors import ConfigError, TrainerStateError
from ..session._process_strategy import create_session
from ..towers._devices import check_devices, configure_process, keep_ops_apart
from ..towers._predictor import Predictor, add_prediction_tower, device_name, make_predictor
from ..towers._tower import Tower
from ._predict_config import PredictConfig

__all__ = [
    "DataParallelOfflinePredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "OwnSession",
    "PredictionGraph",
]


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
        if self._config.session_config is None:
            keep_ops_apart(self._options, self.graph)
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


@final
class MultiTowerOfflinePredictor(OwnSession):
    """One predictor for each device. Use one thread for each of them to keep all devices busy.

    Args:
        config: the model, the source of its values, and the tensors to feed and fetch.
        devices: the devices, such as ["/gpu:0", "/gpu:1"], or the indices of GPUs, -1 for the CPU.

    Attributes:
        graph: the graph of the evaluation replicas; it is final.

    Raises:
        ConfigError: a device is invalid, does not exist, or is named twice.
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.

    Example:
        >>> double = PredictConfig(
        ...     tower_func=lambda x: tf.multiply(x, 2, name="doubled"),
        ...     input_signature=[tf.TensorSpec([None], tf.float32, "x")],
        ...     output_names=["doubled"],
        ... )
        >>> with MultiTowerOfflinePredictor(double, ["/cpu:0"]) as predictors:
        ...     print(predictors.get_predictor(0)([1.0, 2.0]))
        [array([2., 4.], dtype=float32)]
    """

    def __init__(self, config: PredictConfig, devices: Sequence[int | str]) -> None:
        model, self._predictors = _predictors(type(self).__name__, config, devices)
        super().__init__(model)
        model.open()

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for one batch on the first device; see `OfflinePredictor`."""
        return self._predictors[0](*arrays)

    def get_predictor(self, n: int) -> Predictor:
        """Returns the predictor on the nth device, counted from 0.

        Raises:
            ConfigError: there is no such device.
        """
        if n not in range(len(self._predictors)):
            raise ConfigError(
                f"get_predictor({n!r}): expected the number of a device, 0 to {len(self._predictors) - 1}."
            )
        return self._predictors[n]

    def get_predictors(self) -> list[Predictor]:
        """Returns the predictors of all devices, in order."""
        return list(self._predictors)


@final
class DataParallelOfflinePredictor(OwnSession):
    """One call runs the replicas on all devices, each with its own batch; no batch is split.

    Args:
        config: the model, the source of its values, and the tensors to feed and fetch.
        devices: the devices, such as ["/gpu:0", "/gpu:1"], or the indices of GPUs, -1 for the CPU.

    Attributes:
        inputs: the tensors to feed: those of the first replica, then those of the second, and so on.
        outputs: the tensors to fetch, in the same order.
        graph: the graph of the evaluation replicas; it is final.

    Raises:
        ConfigError: a device is invalid, does not exist, or is named twice.
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.

    Example:
        >>> double = PredictConfig(
        ...     tower_func=lambda x: tf.multiply(x, 2, name="doubled"),
        ...     input_signature=[tf.TensorSpec([None], tf.float32, "x")],
        ...     output_names=["doubled"],
        ... )
        >>> with DataParallelOfflinePredictor(double, ["/cpu:0"]) as predict:
        ...     print(predict([1.0, 2.0]))
        [array([2., 4.], dtype=float32)]
    """

    def __init__(self, config: PredictConfig, devices: Sequence[int | str]) -> None:
        model, predictors = _predictors(type(self).__name__, config, devices)
        super().__init__(model)
        self.inputs = tuple(tensor for predictor in predictors for tensor in predictor.inputs)
        self.outputs = tuple(tensor for predictor in predictors for tensor in predictor.outputs)
        self._predict = Predictor(
            model.get_session, self.inputs, self.outputs, return_input=config.return_input
        )
        model.open()

    def __call__(self, *arrays: Any) -> Any:
        """Predicts for one batch per device.

        Args:
            arrays: one per input name for the first device, then for the second, and so on.

        Returns:
            One array per output name for the first device, then for the second, and so on; with
            `return_input`, a pair of the arrays fed and these.

        Raises:
            PredictorInputError: the number of arrays, or the shape or dtype of an array, does not match the
                inputs.
            TrainerStateError: the predictor is closed.
        """
        return self._predict(*arrays)


def _predictors(
    owner: str, config: PredictConfig, devices: Sequence[int | str]
) -> tuple[PredictionGraph, list[Predictor]]:
    if isinstance(devices, (str, int)) or not devices:
        raise ConfigError(
            f'{owner}(devices={devices!r}): expected a list such as ["/gpu:0", "/gpu:1"] or [0, 1].'
        )
    names = [device_name(device) for device in devices]
    check_devices(names)
    model = PredictionGraph(owner, config, names)
    towers = [model.add_tower(device, name=f"tower{index}") for index, device in enumerate(names)]
    return model, [model.predictor_of(tower) for tower in towers]
