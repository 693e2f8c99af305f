"""Dry runs of a long training: a test that every part runs, and a test that the model can learn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, final

import attrs

from .._argument_checks import at_least
from .._errors import ConfigError
from ._train_config import FlowPositions, TrainConfig

__all__ = ["fast_dev_run", "overfit_batches"]


def fast_dev_run(config: TrainConfig, steps: int = 2) -> TrainConfig:
    """Returns the configuration of a dry run, which finds in seconds the errors that would occur after hours.

    It trains one epoch of a few steps and runs the periodic work of every callback at its end, regardless of
    the period: evaluations over a few batches, checkpoints, images. Files go to a directory that is removed
    afterwards; the files in `log_dir` are unchanged, and nothing is resumed. The training itself may follow
    with the same configuration: callbacks and flows start it in their original state. An `InputSource` given
    as `data=` serves one run, so make another one for the training.

    Args:
        config: the training.
        steps: the number of steps, and of batches in an evaluation; rounded up to a multiple of
            `config.steps_per_run`.

    Raises:
        ConfigError: `steps` is not a whole number above 0.

    Example:
        ```python
        SimpleTrainer(fast_dev_run(config)).train()
        ```
    """
    steps = at_least("fast_dev_run", "steps", steps)
    steps += -steps % (config.steps_per_run or 1)
    return attrs.evolve(
        config,
        steps_per_epoch=steps,
        max_epoch=config.starting_epoch,
        evaluation_batches=steps,
        resume=None,
        dry_run=True,
    )


def overfit_batches(config: TrainConfig, batches: int = 1) -> TrainConfig:
    """Returns the configuration of a training on a few batches, which a working model learns by heart.

    Every epoch trains on the same first batches of the data; the number of steps per epoch is unchanged.
    Evaluations take the same number of batches of their data.

    Args:
        config: the training, with its data as `dataflow=`.
        batches: the number of datapoints of the flow to keep.

    Raises:
        ConfigError: `batches` is not a whole number above 0, or the data is not given as `dataflow=`.

    Example:
        ```python
        SimpleTrainer(overfit_batches(config, 4)).train()
        ```
    """
    batches = at_least("overfit_batches", "batches", batches)
    if config.dataflow is None:
        raise ConfigError(
            "overfit_batches takes the first datapoints of dataflow=, but this TrainConfig has none: its "
            f"data is {config.data!r}. Pass the flow itself as dataflow=."
        )
    return attrs.evolve(
        config,
        dataflow=_FirstDatapoints(config.dataflow, batches),
        steps_per_epoch=config.steps_per_epoch or _length(config.dataflow),
        evaluation_batches=batches,
    )


def _length(flow: Any) -> int | None:
    try:
        return len(flow)
    except (TypeError, NotImplementedError):  # the errors that input sources accept
        return None


@final
class _FirstDatapoints:
    """The first datapoints of a flow's first pass, repeated in each pass."""

    def __init__(self, flow: Iterable[Any], count: int) -> None:
        self._flow = flow
        self._count = count
        self._kept: list[Any] | None = None
        self.fixed_batch_size = getattr(flow, "fixed_batch_size", None)
        self.sharded: bool | None = getattr(flow, "sharded", None)

    def __iter__(self) -> Iterator[Any]:
        if self._kept is None:
            positions = FlowPositions()
            positions.note(self._flow)
            self._kept = list(itertools.islice(iter(self._flow), self._count))
            positions.put_back()
        return iter(self._kept)

    def __len__(self) -> int:
        length = _length(self._flow)
        return self._count if length is None else min(self._count, length)

    def seed(self, seed: int) -> None:
        """Seeds the flow, if it can be seeded."""
        seed_flow = getattr(self._flow, "seed", None)
        if callable(seed_flow):
            seed_flow(seed)
