"""Prediction with one replica on each of several devices, which share their variables and a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from .._errors import ConfigError
from ..towers._devices import check_devices
from ..towers._predictor import Predictor
from ._predict_config import PredictConfig
from ._prediction_graph import OwnSession, PredictionGraph
from ._prediction_towers import device_name

__all__ = ["DataParallelOfflinePredictor", "MultiTowerOfflinePredictor"]


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
