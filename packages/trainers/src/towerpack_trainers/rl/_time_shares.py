"""Where the time of a training by acting goes: environment, inference, learner, the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Protocol, TypeVar, final

__all__ = ["Shares", "TimeShares", "shares_as_text"]

_Result = TypeVar("_Result")


class Shares(Protocol):
    """What a training by acting measures of itself."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the rates and shares."""

    def take(self) -> dict[str, float]:
        """Returns the rates and shares since the last call, by their names."""

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Returns what `take` returned as words."""


@final
class TimeShares:
    """Adds up what the parts of a training take.

    Attributes:
        names: of what `take` returns.
        environment: seconds of waiting for environments.
        inference: seconds of asking the policy.
        learner: seconds of updates.
        frames: steps of environments.
    """

    names = ("frames_per_second", "environment_share", "inference_share", "learner_share", "idle_share")

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
        return {name: part / seconds for name, part in zip(self.names, parts)}

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Returns what `take` returned as words: "1,234 frames/s: environment 41 %, inference 22 %, …"."""
        return f"{taken['frames_per_second']:,.0f} frames/s: {shares_as_text(taken)}"


def shares_as_text(taken: Mapping[str, float]) -> str:
    """Returns the shares among rates and shares as words: "environment 41 %, inference 22 %, …"."""
    shares = {name.removesuffix("_share"): share for name, share in taken.items() if name.endswith("_share")}
    return ", ".join(f"{name} {share:.0%}".replace("%", " %") for name, share in shares.items())
