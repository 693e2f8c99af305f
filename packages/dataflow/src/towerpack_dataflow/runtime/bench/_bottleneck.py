"""Conclusions from measurements of a flow: its bottleneck, and how many workers it needs."""

from __future__ import annotations

from typing import NamedTuple, final

from ...flow._datapoint_size import duration
from .._suggest_workers import Suggestion, suggest_workers
from ._stage_times import Stage

__all__ = ["Diagnosis", "SpeedResult"]


@final
class SpeedResult(NamedTuple):
    """A measurement by `TestDataSpeed`; its text is one readable line.

    Attributes:
        datapoints: number of timed datapoints.
        seconds: their total time.
        bytes: size of their arrays, strings and numbers.
        memory: bytes of this process and its workers, shared pages counted once; 0 if unknown.
        processes: number of these processes.
        cpu_seconds: processor time of all of them meanwhile; 0 if unknown.

    Example:
        >>> print(SpeedResult(datapoints=500, seconds=2.0, bytes=3_000_000))
        500 datapoints in 2.00 s: 250 datapoints/s, 1.5 MB/s
    """

    datapoints: int
    seconds: float
    bytes: int
    memory: int = 0
    processes: int = 1
    cpu_seconds: float = 0.0

    @property
    def datapoints_per_second(self) -> float:
        """Datapoints per second."""
        return self.datapoints / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes of arrays, strings and numbers per second."""
        return self.bytes / self.seconds

    @property
    def cpu_ms_per_datapoint(self) -> float:
        """Milliseconds of processor time per datapoint, over all processes."""
        return 1e3 * self.cpu_seconds / self.datapoints

    def __str__(self) -> str:
        """Returns the line that `TestDataSpeed.start()` prints."""
        line = (
            f"{self.datapoints} datapoints in {self.seconds:.2f} s: "
            f"{self.datapoints_per_second:.0f} datapoints/s, {self.bytes_per_second / 1e6:.1f} MB/s"
        )
        if self.cpu_seconds:
            line += f", {self.cpu_ms_per_datapoint:.3g} CPU-ms/datapoint"
        if not self.memory:
            return line
        where = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"{line}; {self.memory / 1e6:.0f} MB in {where}"


@final
class Diagnosis(NamedTuple):
    """A diagnosis by `TestDataSpeed.diagnose()`; its text is a readable report.

    Attributes:
        result: the whole flow, workers included.
        stages: each flow of the tree, measured in one process without workers; parents first.
        addressable: whether workers could share the whole flow.
        consumer: seconds per datapoint that the consumer takes, as passed to `diagnose()`.

    Example:
        >>> top = Stage("BatchData(8)", 0, 0, 10, busy=0.1, computing=0.1, waiting=0.9)
        >>> below = Stage("MapData(f)", 1, 0, 80, busy=0.9, computing=0.9, waiting=0.0)
        >>> diagnosis = Diagnosis(SpeedResult(10, 1.0, 8000), (top, below), True, consumer=0.05)
        >>> diagnosis.bottleneck.name, diagnosis.suggestion.workers
        ('MapData(f)', 2)
    """

    result: SpeedResult
    stages: tuple[Stage, ...]
    addressable: bool
    consumer: float = 0.0

    @property
    def bottleneck(self) -> Stage:
        """The flow that takes the most time, with its workers taken into account."""
        return max(self.stages, key=_share)

    @property
    def suggestion(self) -> Suggestion:
        """The suggested number of workers: for the stages already in workers, or else for the whole flow."""
        shared = [stage for stage in self.stages if stage.workers] or list(self.stages)
        given = max(self.stages[0].datapoints, 1)
        busy = sum(stage.busy for stage in shared)
        computing = sum(stage.computing for stage in shared) / busy if busy else 1.0
        alone = sum(stage.busy for stage in self.stages if stage not in shared)
        return suggest_workers(
            busy / given,
            self.result.bytes / self.result.datapoints,
            computing=computing,
            consumer=self.consumer + alone / given,
        )

    def __str__(self) -> str:
        """Returns the report that `TestDataSpeed.diagnose()` prints."""
        lines = [str(self.result), "each flow, measured in one process:", *self._table()]
        worst = self.bottleneck
        share = _share(worst) / max(sum(map(_share, self.stages)), 1e-9)
        how = "computing" if worst.computing > worst.busy / 2 else "waiting for files, network or threads"
        lines.append(f"bottleneck: {worst.name}, {share:.0%} of the time, mostly {how}")
        lines.append(f"suggestion: {self.suggestion}")
        if not self.addressable and self.suggestion.workers > 1:
            lines.append(
                "this flow is a stream, which one worker reads at a time: to use the others, put the slow "
                "functions into MultiProcessMapData"
            )
        return "\n".join(lines)

    def _table(self) -> list[str]:
        names = ["  " * stage.depth + stage.name for stage in self.stages]
        width = max(map(len, [*names, "flow"]))
        lines = [f"  {'flow':<{width}}  datapoints   busy each  computing  waits below  workers"]
        for name, stage in zip(names, self.stages):
            each = duration(stage.busy / max(stage.datapoints, 1))
            computing = stage.computing / stage.busy if stage.busy else 1.0
            waiting = stage.waiting / max(stage.busy + stage.waiting, 1e-9)
            lines.append(
                f"  {name:<{width}}  {stage.datapoints:>10}  {each:>10}  {computing:>9.0%}  {waiting:>11.0%}"
                f"  {stage.workers or '-':>7}"
            )
        return lines


def _share(stage: Stage) -> float:
    return stage.busy / max(stage.workers, 1)
