"""Methods of a trainer that need a model and an input; a trainer without them raises an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towerpack_callbacks import InferenceTower

from .._errors import ConfigError, TrainerStateError
from ..reports import Headspace

__all__ = ["NeedsModel"]


class NeedsModel:
    """Refuses the methods that need a model and an input. `TowerTrainer`, which has both, overrides them."""

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica of the model for evaluation.

        Raises:
            TrainerStateError: always.
        """
        raise TrainerStateError(
            f"{type(self).__name__} cannot build another replica: it has no model. "
            "Use a trainer with a ModelDesc, such as SimpleTrainer."
        )

    def headspace(self, steps: int = 100) -> Headspace:
        """Measures the throughput without input time.

        Args:
            steps: the number of steps to time.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{type(self).__name__}.headspace: the training has no input from which to hold a batch. "
            "Use a trainer with an input, such as SimpleTrainer, with dataflow= or data=."
        )
