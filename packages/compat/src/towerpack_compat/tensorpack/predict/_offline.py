"""Predictors that build the model, restore it, and predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.training.monitored_session import _HookedSession as HookedSession  # noqa: PLC2701

from towerpack_inputsource import InputSource

from ..tfutils.session import JustCurrentSession, NewSessionCreator, device_names
from ..training._towers import (
    OnlinePredictor,
    PredictorBase,
    PredictTowerContext,
    TowerFunc,
    TowerTensorHandle,
)
from ..utils import logger

__all__ = [
    "DataParallelOfflinePredictor",
    "FeedfreePredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "PredictConfig",
    "placeholders",
]


class PredictConfig:
    """The arguments of a predictor.

    Args:
        model: the model; or
        tower_func: the function that builds a replica, with
        input_signature: its inputs.
        input_names: names of the inputs; None: those of the model.
        output_names: names of the outputs.
        session_creator: creates the session.
        session_init: sets the values of variables.
        return_input: whether a prediction also returns its inputs.
        create_graph: whether to build in a new graph instead of the default graph.
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

    def choose_graph(self) -> tf.Graph:
        """Returns the graph to build in: a new one, or the default graph."""
        return tf.Graph() if self.create_graph else tf.get_default_graph()

    def build(self, tower: str, inputs: Sequence[tf.Tensor]) -> TowerTensorHandle:
        """Builds a replica in the default graph."""
        with PredictTowerContext(tower):
            self.tower_func(*inputs)
        return self.tower_func.towers[len(self.tower_func.towers) - 1]

    def build_on_devices(
        self, towers: Sequence[int], take_inputs: Callable[[str], Sequence[tf.Tensor]]
    ) -> list[TowerTensorHandle]:
        """Builds a replica on each GPU; inputs have the replica's name as a prefix, variables are shared."""
        handles = []
        for index, (number, device) in enumerate(zip(towers, device_names(towers), strict=True)):
            with tf.variable_scope(tf.get_variable_scope(), reuse=index > 0), tf.device(device):
                handles.append(self.build(f"tower{number}", take_inputs(f"tower{number}")))
        return handles

    def open_session(self, devices: Sequence[str] = ()) -> Any:
        """Returns a session of the default graph with initialized variables."""
        self.session_init._setup_graph()
        options = getattr(self.session_creator, "config", None)
        if options is not None and len(devices) > 1 and devices[0].startswith("/cpu"):
            options.device_count["CPU"] = len(devices)
        sess = self.session_creator.create_session()
        self.session_init._run_init(sess)
        return sess


def placeholders(signature: Sequence[tf.TensorSpec], prefix: str = "") -> list[tf.Tensor]:
    """Returns a placeholder for each input."""
    return [tf.placeholder(spec.dtype, spec.shape, prefix + spec.name) for spec in signature]


class OfflinePredictor(OnlinePredictor):
    """Builds the model, restores it, and predicts.

    Args:
        config: a `PredictConfig`.
    """

    def __init__(self, config: PredictConfig) -> None:
        self.graph = config.choose_graph()
        with self.graph.as_default():
            handle = config.build("", placeholders(config.input_signature))
            feeds, fetches = handle.get_tensors(config.input_names), handle.get_tensors(config.output_names)
            sess = config.open_session()
        super().__init__(feeds, fetches, config.return_input, sess)


class MultiTowerOfflinePredictor(OnlinePredictor):
    """Builds one replica on each of several GPUs; a call predicts on the first one.

    Args:
        config: a `PredictConfig`.
        towers: the indices of the GPUs.
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        assert len(towers) > 0
        self.graph = config.choose_graph()
        with self.graph.as_default():
            inputs = placeholders(config.input_signature)
            handles = config.build_on_devices(towers, lambda _tower: inputs)
            sess = config.open_session(device_names(towers))
        names = (config.input_names, config.output_names)
        tensors = [(handle.get_tensors(names[0]), handle.get_tensors(names[1])) for handle in handles]
        super().__init__(*tensors[0], config.return_input, sess)
        self.predictors = [OnlinePredictor(*pair, config.return_input, sess) for pair in tensors]

    def get_predictor(self, n: int) -> list[OnlinePredictor]:
        """Returns `n` predictors, assigned to the GPUs in turn."""
        if n >= len(self.predictors):
            logger.warn("n > #towers, will assign predictor to GPU by round-robin")
        return [self.predictors[number % len(self.predictors)] for number in range(n)]

    def get_predictors(self) -> list[OnlinePredictor]:
        """Returns a predictor for each GPU."""
        return self.predictors


class DataParallelOfflinePredictor(OnlinePredictor):
    """Builds one replica on each of several GPUs; a call predicts on all of them.

    A call takes the inputs of the first replica, then those of the second one, and so on. It returns the
    outputs in the same order.

    Args:
        config: a `PredictConfig`.
        towers: the indices of the GPUs.
    """

    def __init__(self, config: PredictConfig, towers: Sequence[int]) -> None:
        self.graph = config.choose_graph()
        with self.graph.as_default():
            signature = config.input_signature
            handles = config.build_on_devices(towers, lambda tower: placeholders(signature, f"{tower}_"))
            sess = config.open_session(device_names(towers))
        feeds = [tensor for handle in handles for tensor in handle.get_tensors(config.input_names)]
        fetches = [tensor for handle in handles for tensor in handle.get_tensors(config.output_names)]
        super().__init__(feeds, fetches, config.return_input, sess)


class FeedfreePredictor(PredictorBase):
    """Predicts for the next datapoint of an `InputSource`; a call takes no arguments.

    Args:
        config: a `PredictConfig`.
        input_source: the source.
    """

    def __init__(self, config: PredictConfig, input_source: InputSource) -> None:
        assert not config.return_input, "return_input is not supported in FeedfreePredictor!"
        self.graph = config.choose_graph()
        with self.graph.as_default():
            input_source.setup(config.input_signature)
            handle = config.build("", input_source.get_input_tensors())
            self._fetches = handle.get_tensors(config.output_names)
            hooks = list(input_source.hooks())
            for hook in hooks:
                hook.begin()  # workers start here, before the session has threads
            self._sess = config.open_session()
            coordinator = tf.train.Coordinator()
            with self._sess.as_default():
                for hook in hooks:
                    hook.after_create_session(self._sess, coordinator)
                input_source.reset_state()
            self._hooked_sess = HookedSession(self._sess, hooks)

    def __call__(self, *dp: Any) -> Any:
        """Predicts for the next datapoint."""
        return self._hooked_sess.run(self._fetches)

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        raise NotImplementedError("FeedfreePredictor takes no arguments.")
