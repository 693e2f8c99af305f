"""The base class of agent trainers: data that the training makes itself, and one cost."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from towerpack_callbacks import Callback

from .._errors import ConfigError
from ..base import BuilderTrainer
from ..config._train_config import TrainConfig, default_callbacks
from ..replicate import choose_builder
from ..towers._builder import Builder
from ..towers._devices import choose_devices
from ._acting_report import ActingReport
from ._collector import Collector

__all__ = ["AgentTrainer"]

_TURNS_IN_EPOCH = 10


class AgentTrainer(BuilderTrainer):
    """Trains a model of one cost on data that a collector makes.

    Args:
        config: the training; its data comes from the collector.
        collector: makes the data, one iteration at a time.
        updates: the number of updates in an iteration.
        devices: devices, or their number; None for one.

    Raises:
        ConfigError: the configuration does not suit this trainer.
    """

    def __init__(
        self,
        config: TrainConfig,
        collector: Collector,
        updates: int,
        devices: int | Sequence[str] | None,
    ) -> None:
        if devices is not None:
            self.devices = choose_devices(devices, None)
        self._collector = collector
        extra = default_callbacks() if config.extra_callbacks is None else config.extra_callbacks
        steps = config.steps_per_epoch
        super().__init__(
            attrs.evolve(
                config,
                steps_per_epoch=updates * _TURNS_IN_EPOCH if steps is None else steps,
                extra_callbacks=[*extra, collector],
            )
        )

    def explain(self) -> str:
        """Describes the training, as `Trainer.explain` does, and the acting."""
        return f"{super().explain()}\n{self._collector.describe()}"

    @classmethod
    def _updates_of(cls, batches: int, devices: int | Sequence[str] | None) -> int:
        """Returns the number of updates for the given number of batches.

        Raises:
            ConfigError: the batches cannot be divided evenly among the towers.
        """
        towers = 1 if devices is None else len(choose_devices(devices, None))
        if batches % towers:
            raise ConfigError(
                f"{cls.__name__}: an iteration has {batches} batches, which cannot be divided evenly among "
                f"{towers} towers. Choose steps, batch_size or epochs so that the number of batches is a "
                "multiple."
            )
        return batches // towers

    def _setup(self) -> None:
        self._collector.prepare(self.seed, max(len(self.devices), 1))
        super()._setup()

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed) if self.devices else super()._make_builder()

    def _own_callbacks(self) -> list[Callback]:
        report = ActingReport(self._collector.steps.episodes, self._collector.time_breakdown)
        return [*super()._own_callbacks(), report]
