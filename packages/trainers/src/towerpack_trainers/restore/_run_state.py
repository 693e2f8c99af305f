"""What a checkpoint keeps of a run besides variables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, final

import attrs

from towerpack_callbacks import Callbacks, LoopState
from towerpack_inputsource import InputSource

__all__ = ["RunState"]

_log = logging.getLogger("towerpack_trainers")


@final
@attrs.frozen
class RunState:
    """The counters, seed, callbacks and position in the data of one run, to be saved and restored together.

    Attributes:
        loop: the counters.
        seed: what the run's random numbers are drawn from.
        callbacks: the callbacks, set up.
        source: the input; None without one.
        allow: differences between a checkpoint and this run that are not refused: "callbacks", "input".
    """

    loop: LoopState
    seed: int
    callbacks: Callbacks
    source: InputSource | None
    allow: Collection[str] = ()

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint holds, as JSON values."""
        state = {
            "loop": self.loop.state_dict(),
            "seed": self.seed,
            "callbacks": self.callbacks.state_dict(),
        }
        if self.source is not None:
            state["input"] = self.source.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets counters, callbacks and the position in the data. The seed has been chosen before.

        Raises:
            CheckpointError: a callback's state belongs to no callback of this run.
        """
        self.loop.load_state_dict(state["loop"])
        self.callbacks.load_state_dict(state["callbacks"], allow_unknown="callbacks" in self.allow)
        self._load_position(state.get("input"))

    def _load_position(self, position: dict[str, Any] | None) -> None:
        if self.source is None or position is None:
            return
        if "input" in self.allow:
            _log.warning("The data starts anew, as resume_allow has it: %s", position)
            return
        if position.get("flow", position) is None:
            _log.warning(
                "The data cannot say its position, so it starts anew: the resumed run will differ from an "
                "uninterrupted one. A DataFlow can say it, for example DataFromList(your_list)."
            )
        self.source.load_state_dict(position)
