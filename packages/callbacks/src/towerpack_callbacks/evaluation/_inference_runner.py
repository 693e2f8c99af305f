"""Evaluation during training: a replica of the model runs over a separate dataset."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback, InferenceTower

__all__ = ["DataParallelInferenceRunner", "InferenceRunner", "Inferencer"]


class Inferencer(abc.ABC):
    """Computes statistics from the model's outputs for each batch of one evaluation round."""

    @abc.abstractmethod
    def _get_fetches(self) -> Sequence[str]:
        """Returns the names of the tensors to fetch for each batch."""

    def _before_inference(self) -> None:
        """Starts a round."""

    @abc.abstractmethod
    def _on_fetches(self, values: list[Any], batch_size: int) -> None:
        """Processes one batch.

        Args:
            values: the fetched arrays, in the order of `_get_fetches`, of their tensors' shapes and dtypes.
            batch_size: the number of examples in the batch; the last of a round may be smaller.
        """

    @abc.abstractmethod
    def _after_inference(self) -> dict[str, float]:
        """Ends a round and returns its statistics by name."""

    @abc.abstractmethod
    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics that `_after_inference` will return."""


class _Runner(Callback):
    """Evaluates the model at each trigger; subclasses choose the devices."""

    def __init__(
        self,
        input: Any,
        inferencers: Inferencer | Sequence[Inferencer],
        tower_name: str,
        devices: Sequence[str],
    ) -> None:
        if not isinstance(inferencers, (list, tuple)):
            inferencers = [inferencers]  # type: ignore[list-item]
        for inferencer in inferencers:
            if not isinstance(inferencer, Inferencer):
                raise TypeError(
                    f"InferenceRunner takes Inferencer objects such as ScalarStats, received {inferencer!r}."
                )
        self._input = input
        self._inferencers = tuple(inferencers)
        self._tower_name = tower_name
        self._devices = devices

    def _setup_graph(self) -> None:
        self._tower: InferenceTower = self.trainer.build_inference_tower(
            self._input, self._tower_name, self._devices
        )
        self._fetches: list[list[tf.Tensor]] = [
            self._tower.get_tensors(inferencer._get_fetches()) for inferencer in self._inferencers
        ]

    def _trigger(self) -> None:
        for inferencer in self._inferencers:
            inferencer._before_inference()
        batches = 0
        for values, batch_size in itertools.islice(
            self._tower.evaluate(self._fetches), self.trainer.loop.evaluation_batches
        ):
            batches += 1
            for inferencer, value in zip(self._inferencers, values):
                inferencer._on_fetches(value, batch_size)
        if not batches:
            raise ValueError(
                f"{self} evaluates over {self._input!r}, which gave no datapoint in this pass. Check its "
                "filters, and check that its batch size does not exceed its length."
            )
        for inferencer in self._inferencers:
            for name, number in inferencer._after_inference().items():
                self.trainer.monitors.put_scalar(name, number)

    def produces(self) -> Sequence[str]:
        return [name for inferencer in self._inferencers for name in inferencer.produces()]


@final
class InferenceRunner(_Runner):
    """Evaluates the model at each trigger, over one whole pass of `input`, each datapoint exactly once.

    It adds a replica of the model that shares its variables. Training steps, `global_step` and summaries are
    unaffected.

    Args:
        input: a DataFlow, or an InputSource that ends after one pass.
        inferencers: one `Inferencer` or several.
        tower_name: name scope of the replica; each runner needs a different name.

    Raises:
        TypeError: an inferencer is not one.
    """

    def __init__(
        self, input: Any, inferencers: Inferencer | Sequence[Inferencer], tower_name: str = "InferenceTower"
    ) -> None:
        super().__init__(input, inferencers, tower_name, ())


@final
class DataParallelInferenceRunner(_Runner):
    """Evaluates the model at each trigger on several devices at a time, each datapoint exactly once.

    It adds a replica per device. Each session call evaluates one datapoint on each device; the last call may
    use fewer devices. Inferencers receive batches in the order of the flow, so the statistics equal those of
    an `InferenceRunner`.

    Args:
        input: a DataFlow, with or without a known length. Use a flow with worker processes to keep the
            devices busy.
        inferencers: one `Inferencer` or several.
        devices: the devices of the replicas, such as ["/gpu:0", "/gpu:1"].
        tower_name: name scope of the replicas, before their numbers; each runner needs a different name.

    Raises:
        TypeError: an inferencer is not one.
        ValueError: no devices are given.
    """

    def __init__(
        self,
        input: Any,
        inferencers: Inferencer | Sequence[Inferencer],
        devices: Sequence[str],
        tower_name: str = "InferenceTower",
    ) -> None:
        if not devices or isinstance(devices, str):
            raise ValueError(
                f"DataParallelInferenceRunner(devices={devices!r}): expected a list such as "
                '["/gpu:0", "/gpu:1"].'
            )
        super().__init__(input, inferencers, tower_name, list(devices))
