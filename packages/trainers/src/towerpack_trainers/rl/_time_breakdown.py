"""The fractions of time of a training by acting: environment, inference, learner, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Protocol, TypeVar, final

__all__ = ["ActingTimeBreakdown", "TimeBreakdown", "breakdown_as_text"]

_Result = TypeVar("_Result")


class TimeBreakdown(Protocol):
    """Measures the time of a training by acting."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the rates and fractions."""

    def take(self) -> dict[str, float]:
        """Returns the rates and fractions since the last call, by name."""

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`."""


@final
class ActingTimeBreakdown:
    """Sums up the time of the parts of a training.

    Attributes:
        names: the keys of the return value of `take`.
        environment: the time of waiting for environments, in seconds.
        inference: the time of running the policy, in seconds.
        learner: the time of updates, in seconds.
        frames: the number of steps of environments.
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
        """Calls a function that runs the policy."""
        begin = perf_counter()
        result = call()
        self.inference += perf_counter() - begin
        return result

    def begin_learning(self) -> None:
        """Marks the beginning of updates."""
        self._learning_since = perf_counter()

    def end_learning(self) -> None:
        """Marks the end of updates."""
        if self._learning_since is not None:
            self.learner += perf_counter() - self._learning_since
            self._learning_since = None

    def take(self) -> dict[str, float]:
        """Returns frames per second and each part's fraction of time since the last call; resets them.

        Time outside of the three parts, such as evaluations, savers and storing of steps, is idle time.
        """
        seconds = max(perf_counter() - self._since, 1e-9)
        busy = (self.environment, self.inference, self.learner)
        parts = (self.frames, *busy, max(seconds - sum(busy), 0.0))
        self._restart()
        return {name: part / seconds for name, part in zip(self.names, parts)}

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`: "1,234 frames/s: environment 41 %, inference 22 %, …"."""
        return f"{taken['frames_per_second']:,.0f} frames/s: {breakdown_as_text(taken)}"


def breakdown_as_text(taken: Mapping[str, float]) -> str:
    """Formats the fractions among rates and fractions: "environment 41 %, inference 22 %, …"."""
    shares = {name.removesuffix("_share"): share for name, share in taken.items() if name.endswith("_share")}
    return ", ".join(f"{name} {share:.0%}".replace("%", " %") for name, share in shares.items())
