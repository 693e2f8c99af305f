"""`tensorpack.predict`, where meanings differ from Towerpack's."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_dataflow import DataFlow

from .._dry_run import EVALUATION_BATCHES, dry_run_steps
from .tfutils.session import JustCurrentSession, NewSessionCreator
from .training import PredictTowerContext, TowerFunc
from .training._online_predictor import OnlinePredictor, PredictorBase

__all__ = [
    "DatasetPredictorBase",
    "OfflinePredictor",
    "OnlinePredictor",
    "PredictConfig",
    "PredictorBase",
    "SimpleDatasetPredictor",
]


class PredictConfig:
    """The arguments of a predictor.

    Args:
        model: the model; or
        tower_func: the function that builds a replica, with
        input_signature: its inputs.
        input_names: names of the inputs; None: those of the model.
        output_names: names of the outputs.
        session_creator: makes the session.
        session_init: where the values of variables come from.
        return_input: whether a prediction returns its inputs, too.
        create_graph: whether the predictor builds in a graph of its own, or in the default graph.
    """

    def __init__(
        self,
        model: Any = None,
        tower_func: Callable[..., Any] | None = None,
        input_signature: Sequence[tf.TensorSpec] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        session_creator: Any = None,
        session_init: Any = None,
        return_input: bool = False,
        create_graph: bool = True,
    ) -> None:
        if model is not None:
            assert input_signature is None and tower_func is None
            input_signature, tower_func = model.get_input_signature(), model.build_graph
        assert tower_func is not None and input_signature is not None
        self.input_signature = list(input_signature)
        self.tower_func = TowerFunc(tower_func, self.input_signature)
        self.input_names = list(input_names or [spec.name for spec in self.input_signature])
        assert output_names is not None, "PredictConfig needs output_names="
        self.output_names = list(output_names)
        self.session_creator = session_creator or NewSessionCreator()
        self.session_init = session_init or JustCurrentSession()
        self.return_input, self.create_graph = return_input, create_graph


class OfflinePredictor(OnlinePredictor):
    """Builds the model, restores it, and predicts.

    Args:
        config: a `PredictConfig`.
    """

    def __init__(self, config: PredictConfig) -> None:
        self.graph = tf.Graph() if config.create_graph else tf.get_default_graph()
        with self.graph.as_default():
            inputs = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in config.input_signature]
            with PredictTowerContext(""):
                config.tower_func(*inputs)
            handle = config.tower_func.towers[len(config.tower_func.towers) - 1]
            feeds, fetches = handle.get_tensors(config.input_names), handle.get_tensors(config.output_names)
            config.session_init._setup_graph()
            sess = config.session_creator.create_session()
            config.session_init._run_init(sess)
        super().__init__(feeds, fetches, config.return_input, sess)


class DatasetPredictorBase(abc.ABC):
    """Predicts for each datapoint of a flow.

    Args:
        config: a `PredictConfig`.
        dataset: the flow.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        assert isinstance(config, PredictConfig), config
        self.config, self.dataset = config, dataset

    @abc.abstractmethod
    def get_result(self) -> Any:
        """Yields the outputs for each datapoint."""

    def get_all_result(self) -> list[Any]:
        """Returns the outputs for all datapoints."""
        return list(self.get_result())


class SimpleDatasetPredictor(DatasetPredictorBase):
    """Predicts for each datapoint of a flow, one after the other, in this process."""

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        super().__init__(config, dataset)
        self.predictor = OfflinePredictor(config)

    def get_result(self) -> Any:
        self.dataset.reset_state()
        for number, datapoint in enumerate(self.dataset):
            if dry_run_steps() is not None and number == EVALUATION_BATCHES:
                return
            yield self.predictor(*datapoint)
