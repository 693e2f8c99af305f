"""What a trainer can do only if it has a model and an input; others say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towerpack_callbacks import InferenceTower

from .._errors import ConfigError, TrainerStateError
from ..reports import Headspace

__all__ = ["NeedsModel"]


class NeedsModel:
    """Refuses what takes a model and an input; `TowerTrainer`, which has both, overrides it."""

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica of the model for evaluation.

        Raises:
            TrainerStateError: always.
        """
        raise TrainerStateError(
            f"{type(self).__name__} does not know how to build another replica of the model. "
            "Use a trainer that has a ModelDesc, such as SimpleTrainer."
        )

    def headspace(self, steps: int = 100) -> Headspace:
        """Measures what the training would reach if data cost nothing.

        Args:
            steps: how many to time.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{type(self).__name__}.headspace: the training has no input, of which a batch could be held. "
            "Use a trainer that has one, such as SimpleTrainer, with dataflow= or data=."
        )
