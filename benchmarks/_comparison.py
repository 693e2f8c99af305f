"""Scenarios in which subjects, each in a separate process, are measured in interleaved rounds.

A script with subjects is started as `python SCRIPT SCENARIO SUBJECT`. It prints "ready" once warmed up, then
one line of figures (JSON) for each line it reads; see `serve` in _loaders.py.

A subject that crashes or hangs is reported as such and left out from there on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import _rounds
from _verdicts import MISSED, judge

ROUNDS = _rounds.shorter(5)
OURS = "towerpack"  # the names of our subjects begin so
BEST = "the best peer"

Table = dict[str, dict[str, list[float]]]  # subject -> figure -> one value for each round


class Target(NamedTuple):
    """A target: a figure of ours, absolute or relative to another subject.

    `BEST` as the other one is the peer with the highest first figure, or the lowest if that is "seconds".
    """

    ours: str
    figure: str
    limit: float
    other: str | None = None
    other_figure: str | None = None
    at_most: bool = False

    def judged(self, table: Table) -> str:
        """A line with a mark. What is not there is missed if it is ours; peers need not be installed."""
        other = best_peer(table) if self.other == BEST else self.other
        sign = "≤" if self.at_most else "≥"
        what = f"{self.ours}: {self.figure}"
        if other is not None:
            what = f"{self.ours} / {other}, {self.figure}"
        asked = f"{sign} {self.limit:g}"
        missing = [name for name in (self.ours, other) if name is not None and name not in table]
        if missing:
            mark = MISSED if missing[0] == self.ours else "-"
            return f"| {what} | {asked} | {missing[0]} was not measured | {mark} |"
        values = table[self.ours][self.figure]
        if other is not None:
            others = table[other][self.other_figure or self.figure]
            values = [one / other for one, other in zip(values, others)]
        return f"| {what} | {asked} | {spread(values)} | {judge(values, self.limit, self.at_most)} |"


def best_peer(table: Table) -> str:
    """The peer with the best median of its first figure; `BEST` if there are no peers."""
    medians = {
        name: (median(values) if figure == "seconds" else -median(values))
        for name, figures in table.items()
        if not name.startswith(OURS)
        for figure, values in [next(iter(figures.items()))]
    }
    return min(medians, key=medians.__getitem__, default=BEST)


@dataclass
class Comparison:
    """Scenarios, their subjects and their targets.

    Attributes:
        script: the file with the subjects.
        subjects: by scenario, the names of its subjects.
        titles: by scenario, its heading; the text before the dot is its name in the table of targets.
        targets: by scenario.
        seconds: by scenario, the time after which no round begins.
        afresh: scenarios with new processes in each round.
        start_limit: seconds that a subject may take to get ready.
        measure_limit: seconds that a measurement may take.
        environment: what the processes have besides this one's environment.
        hidden: figures that are not printed, by the first letters of the scenarios that print them.
    """

    script: str
    subjects: Mapping[str, Iterable[str]]
    titles: Mapping[str, str]
    targets: Mapping[str, Sequence[Target]]
    seconds: Mapping[str, float]
    afresh: frozenset[str] = frozenset()
    start_limit: float = 60.0
    measure_limit: float = 40.0
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)

    def measured(self, scenario: str) -> tuple[Table, dict[str, str]]:
        """All figures of a scenario, and why some subjects have none."""
        table: Table = {}
        failures: dict[str, str] = {}
        deadline = time.monotonic() + self.seconds[scenario]
        with contextlib.ExitStack() as processes:
            ready: list[Subject] = []
            for number in range(ROUNDS):
                if number and time.monotonic() > deadline:
                    break
                if not number or scenario in self.afresh:
                    processes.close()
                    ready = self._started(scenario, table, failures, processes)
                for subject in ready[:: -1 if number % 2 else 1]:
                    measure_once(subject, table, failures)
                ready = [subject for subject in ready if not subject.failure]
        return table, failures

    def _started(
        self, scenario: str, table: Table, failures: dict[str, str], processes: contextlib.ExitStack
    ) -> list[Subject]:
        """The subjects that have not failed yet, warmed up and waiting; `processes` ends them."""
        ready = []
        for name in self.subjects[scenario]:
            if name in failures or (_rounds.SMOKE and not name.startswith(OURS)):
                continue
            subject = Subject(self, scenario, name)
            processes.callback(subject.stop)
            if subject.wait_until_ready():
                subject.pause(True)
                ready.append(subject)
            else:
                leave_out(subject, subject.failure, table, failures)
        return ready

    def described(self, scenario: str, table: Table, failures: dict[str, str]) -> str:
        """The measurements."""
        rounds = max((len_of(table, name) for name in table), default=0)
        lines = [f"## {self.titles[scenario]}", "", "| | median (range) | also |", "| --- | ---: | --- |"]
        for name in self.subjects[scenario]:
            if name in failures:
                lines.append(f"| {name} | {failures[name]} | |")
            if name not in table:
                continue
            main, *others = table[name]
            also = ", ".join(
                f"{figure} {spread(table[name][figure])}"
                for figure in others
                if scenario.startswith(self.hidden.get(figure, ""))
            )
            lines.append(f"| {name} | {spread(table[name][main])} | {also} |")
        return "\n".join([*lines, "", f"{rounds} rounds; {_rounds.load()} at the end."])

    def judged(self, scenario: str, table: Table) -> list[str]:
        """How that stands against the targets, as lines of a table."""
        name = self.titles[scenario].partition(".")[0]
        return [f"| {name} {target.judged(table)}" for target in self.targets.get(scenario, ())]

    def run(self, title: str, packages: Sequence[str], extra: Mapping[str, Callable[[], str]]) -> None:
        """Measures the scenarios that the command line names, or all; prints Markdown, and ends the process.

        Args:
            title: the first heading.
            packages: whose versions are printed.
            extra: further sections, by the names that the command line may have.
        """
        names = [*dict.fromkeys(scenario.split()[0] for scenario in self.subjects), *extra]
        asked = sys.argv[1:] or names
        if unknown := set(asked).difference(names):
            sys.exit(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(names)}")
        first, sections, targets = _rounds.heading(*packages), [], []
        crashed: list[str] = []
        begin = time.monotonic()
        try:
            for scenario in self.subjects:
                if scenario.split()[0] in asked:
                    table, failures = self.measured(scenario)
                    ours = {name: why for name, why in failures.items() if name.startswith(OURS)}
                    crashed += [f"{scenario}, {name} {why}" for name, why in ours.items()]
                    sections.append(self.described(scenario, table, failures))
                    targets += self.judged(scenario, table)
                    now = [sections[-1], *self.judged(scenario, table), ""]
                    print(*now, sep="\n", file=sys.stderr, flush=True)
            sections += [section() for name, section in extra.items() if name in asked]
        except KeyboardInterrupt:
            sections.append("Interrupted here.")
        print(f"# {title}\n\n{first}\n")
        print(
            "| scenario | target | asked | measured | |",
            "| --- | --- | --- | --- | --- |",
            *targets,
            sep="\n",
        )
        print("", *sections, sep="\n\n")
        print(f"\nAll of it took {time.monotonic() - begin:.0f} s.")
        missed = [line for line in targets if line.endswith(f"{MISSED} |")]
        if crashed:
            sys.exit(f"ours gave no figures: {'; '.join(crashed)}")
        if missed and not _rounds.SMOKE:
            sys.exit(f"{len(missed)} targets were missed")


class Subject:
    """A process that measures on request."""

    def __init__(self, comparison: Comparison, scenario: str, name: str) -> None:
        """Starts it; it warms up on its own."""
        self.name = name
        self._limits = comparison.start_limit, comparison.measure_limit
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(comparison.script)), scenario, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **environment, **comparison.environment},
            start_new_session=True,
        )
        self.failure = ""

    def wait_until_ready(self) -> bool:
        """Whether it can be measured; otherwise `failure` has the reason."""
        line = self._line(self._limits[0])
        if line.startswith("{"):
            self.failure = f"not installed ({json.loads(line)['missing']})"
        elif line != "ready":
            self.failure = self._what_happened(line)
        return not self.failure

    def measure(self) -> dict[str, float] | None:
        """The figures of one round; `None` if it failed."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # no answer will follow, which is noticed
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        line = self._line(self._limits[1])
        if not line.startswith("{"):
            self.failure = self._what_happened(line)
            return None
        figures: dict[str, float] = json.loads(line)
        return figures

    def pause(self, on: bool) -> None:
        """Suspends its processes during another measurement, or resumes them."""
        os.killpg(self._process.pid, signal.SIGSTOP if on else signal.SIGCONT)

    def stop(self) -> None:
        """Ends it, and all that it started; once."""
        if self._log.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not readable:
            return "hangs"
        return self._process.stdout.readline().decode().strip()

    def _what_happened(self, line: str) -> str:
        if line == "hangs":
            return "hangs"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        telling = [text for text in lines if "Error" in text] or lines
        return f"failed: {telling[-1] if telling else 'no message'}"


def measure_once(subject: Subject, table: Table, failures: dict[str, str]) -> None:
    """Adds a round's figures of one subject to the table, or takes it out if it fails."""
    subject.pause(False)
    figures = subject.measure()
    if figures is None:
        where = f"in round {len_of(table, subject.name) + 1}"
        leave_out(subject, f"{subject.failure} {where}", table, failures)
        return
    subject.pause(True)
    for figure, value in figures.items():
        table.setdefault(subject.name, {}).setdefault(figure, []).append(value)


def leave_out(subject: Subject, reason: str, table: Table, failures: dict[str, str]) -> None:
    """Ends a subject that crashed or hangs; the reason stands in the place of its figures."""
    failures[subject.name] = reason
    table.pop(subject.name, None)
    subject.stop()


def len_of(table: Table, name: str) -> int:
    """Rounds of a subject so far."""
    return max(map(len, table.get(name, {}).values()), default=0)


def spread(values: list[float]) -> str:
    """Median and range, with as many digits as mean something."""
    form: Callable[[float], str] = lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: E731
    return f"{form(median(values))} ({form(min(values))} to {form(max(values))})"
