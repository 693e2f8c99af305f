"""Replicas of a model for prediction, one on each device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._errors import ConfigError, TrainerStateError
from ..towers._devices import check_devices, note_devices
from ..towers._predictor import Predictor, make_predictor
from ..towers._tower import Tower, TowerFunc

__all__ = ["PredictionTowers", "add_prediction_tower", "device_name"]


def device_name(device: int | str) -> str:
    """Returns the name of a device, which may be given as the index of a GPU, or as -1 for the CPU.

    Raises:
        ConfigError: the device is invalid or does not exist.
    """
    if isinstance(device, int) and not isinstance(device, bool) and device >= -1:
        device = "/cpu:0" if device == -1 else f"/gpu:{device}"
    if not isinstance(device, str):
        raise ConfigError(
            f'device={device!r}: expected the number of a GPU, -1 for the CPU, or a name such as "/gpu:1".'
        )
    return check_devices([device])[0]


def add_prediction_tower(
    function: TowerFunc,
    context: TowerContext,
    device: str | None = None,
    inputs: Sequence[tf.Tensor] | None = None,
) -> Tower:
    """Adds a replica to the current graph.

    Args:
        function: the model.
        context: its tower context.
        device: the device of the replica; None lets TensorFlow choose.
        inputs: its input tensors; None: placeholders.
    """
    note_devices([] if device is None else [device])
    with contextlib.nullcontext() if device is None else tf.device(device):
        if inputs is None:
            inputs = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in function.specs]
        return function.build(context, inputs)


@final
class PredictionTowers:
    """The predictors of a trainer: one replica for each device, one callable for each set of tensors.

    Args:
        function: the trainer's tower function; its variables must exist when the first predictor is made.
        graph: the trainer's graph.
        scope: makes the context in which to build.
    """

    def __init__(
        self, function: TowerFunc, graph: tf.Graph, scope: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._function, self._graph, self._scope = function, graph, scope
        self._towers: dict[Any, Tower] = {}
        self._predictors: dict[Any, Predictor] = {}

    def get_predictor(
        self,
        get_session: Callable[[], tf.Session],
        input_names: Sequence[str],
        output_names: Sequence[str],
        device: int | str | None,
    ) -> Predictor:
        """Returns the predictor for the given tensors on a device; see `TowerTrainer.get_predictor`."""
        name = None if device is None else device_name(device)
        key = None if name is None else _canonical(name)
        tower = self._towers.get(key) or self._towers.setdefault(key, self._build(name))
        made = make_predictor(get_session, tower, input_names, output_names)
        tensors = tuple(tuple(tensor.name for tensor in group) for group in (made.inputs, made.outputs))
        return self._predictors.setdefault((key, tensors), made)

    def _build(self, device: str | None) -> Tower:
        if self._graph.finalized:
            raise TrainerStateError("The graph is final. Call get_predictor in a callback's _setup_graph.")
        with self._scope():
            name = self._graph.unique_name("tower-pred", mark_as_used=False)
            context = TowerContext(name, is_training=False, reuse=True)
            return add_prediction_tower(self._function, context, device)


def _canonical(device: str) -> tuple[Any, ...]:
    """Returns an equal value for all spellings of a device."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task, spec.device_type.upper(), spec.device_index or 0
