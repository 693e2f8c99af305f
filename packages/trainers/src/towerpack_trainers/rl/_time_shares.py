"""Where the time of a training by acting goes: environment, inference, learner, the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        learner: seconds of updates.
        frames: steps of environments.
    """

    def __init__(self) -> None:
        self._learning_since: float | None = None
        self._restart()

    def _restart(self) -> None:
        self.environment = self.inference = self.learner = 0.0
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

    def begin_learning(self) -> None:
        """Notes that updates begin."""
        self._learning_since = perf_counter()

    def end_learning(self) -> None:
        """Notes that something else begins."""
        if self._learning_since is not None:
            self.learner += perf_counter() - self._learning_since
            self._learning_since = None

    def take(self) -> dict[str, float]:
        """Returns frames per second and each part's share of the time, since the last call; starts anew.

        What is none of the three, such as evaluations, savers and the keeping of what happened, is idle time.
        """
        seconds = max(perf_counter() - self._since, 1e-9)
        busy = (self.environment, self.inference, self.learner)
        parts = (self.frames, *busy, max(seconds - sum(busy), 0.0))
        self._restart()
        return {name: part / seconds for name, part in zip(SHARES, parts)}

    @staticmethod
    def as_text(taken: Mapping[str, float]) -> str:
        """Returns what `take` returned as words: "1,234 frames/s: environment 41 %, inference 22 %, …"."""
        shares = ", ".join(f"{name.removesuffix('_share')} {taken[name]:.0%}" for name in SHARES[1:])
        return f"{taken[SHARES[0]]:,.0f} frames/s: {shares}".replace("%", " %")
