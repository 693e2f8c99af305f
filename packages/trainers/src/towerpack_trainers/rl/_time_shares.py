"""Where the time of a training by acting goes: environment, inference, learner, the rest."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar, final

__all__ = ["SHARES", "TimeShares"]

SHARES = ("frames_per_second", "environment_share", "inference_share", "learner_share", "idle_share")

_Result = TypeVar("_Result")


@final
class TimeShares:
    """Adds up what the parts of a training take.

    Attributes:
        environment: seconds of waiting for environments.
        inference: seconds of asking the policy.
        acting: seconds of making the data of all turns, the two above included.
        frames: steps of environments.
    """

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.environment = self.inference = self.acting = 0.0
        self.frames = 0
        self._since = perf_counter()

    def in_environment(self, call: Callable[[], _Result]) -> _Result:
        """Calls a function that waits for environments."""
        begin = perf_counter()
        result = call()
        self.environment += perf_counter() - begin
        return result

    def in_inference(self, call: Callable[[], _Result]) -> _Result:
        """Calls a function that asks the policy."""
        begin = perf_counter()
        result = call()
        self.inference += perf_counter() - begin
        return result

    def in_acting(self, call: Callable[[], _Result]) -> _Result:
        """Calls a function that makes the data of a turn."""
        begin = perf_counter()
        result = call()
        self.acting += perf_counter() - begin
        return result

    def take(self) -> dict[str, float]:
        """Returns frames per second and each part's share of the time, since the last call; starts anew."""
        seconds = max(perf_counter() - self._since, 1e-9)
        rest = max(self.acting - self.environment - self.inference, 0.0)
        parts = (self.frames, self.environment, self.inference, seconds - self.acting, rest)
        self._restart()
        return {name: part / seconds for name, part in zip(SHARES, parts)}
