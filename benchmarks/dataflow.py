"""towerpack-dataflow and its peers: transport, decoding, start-up, overhead and resuming.

    python benchmarks/dataflow.py [--smoke] [SCENARIO …]      A1 A2 B C D E F import; all by default
    nox -s bench -- dataflow                        with the peers installed

Each subject (see _loaders.py) has a process of its own, for C and E a new one in each round, and is warmed
up; they are measured in turn, one at a time, every second round in the opposite order. One that crashes or
hangs is reported as such and left out from there on. All of it takes about ten minutes, and less than
twenty on a busy machine: what takes too long gets fewer rounds, and the table says so.

Prints Markdown for RESULTS.md: first how all targets stand, then each scenario with medians and ranges. Each
scenario is also printed to the standard error as soon as it is done. The exit status is 1 if a target was
missed, or if anything of ours gave no figure.
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
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import _rounds
from _loaders import SUBJECTS
from _verdicts import MISSED, judge

ROUNDS = _rounds.shorter(5)
SECONDS_TO_START, SECONDS_TO_MEASURE = 60.0, 40.0
SECONDS = {"A1": 90, "A2": 180, "B": 90, "C": 300, "D": 120, "E": 120, "F resume": 50, "F uneven": 60}
# Their ratios are close to their limits, and the same code takes a few percent more or less in one process
# than in the next, for as long as that lives: so each round has new ones.
AFRESH = {"C", "E"}
PACKAGES = (
    "towerpack-dataflow",
    "numpy",
    "torch",
    "grain",
    "spdl-core",
    "tensorpack",
    "opencv-python-headless",
)
TITLES = {
    "A1": "A1. Transport: one ready 38.5 MB array a datapoint, 1 worker (batches/s)",
    "A2": "A2. Items of 150 KB made in the worker and batched by 256, 1 and 2 workers (batches/s)",
    "B": "B. Small records one by one through one worker (records/s)",
    "C": "C. JPEG decode, resize, batch of 64, two threads or processes (images/s)",
    "D": "D. Start-up with a list of 1 281 167 paths, 4 fresh workers (seconds to the first batch)",
    "E": "E. Ten chained identity maps over a million integers, one process (datapoints/s)",
    "F resume": "F. Resuming at batch 10 000 (seconds to the next batch)",
    "F uneven": "F. Uneven work, 1 ms and every 50th 50 ms, 4 workers, in order (datapoints/s)",
}

Table = dict[str, dict[str, list[float]]]  # subject -> figure -> one value for each round


class Target(NamedTuple):
    """A target: a figure of ours, absolute or relative to another subject."""

    ours: str
    figure: str
    limit: float
    other: str | None = None
    other_figure: str | None = None
    at_most: bool = False

    def judged(self, table: Table) -> str:
        """A line with a mark. What is not there is missed if it is ours; peers need not be installed."""
        sign = "≤" if self.at_most else "≥"
        what = f"{self.ours}: {self.figure}"
        if self.other is not None:
            what = f"{self.ours} / {self.other}, {self.figure}"
        asked = f"{sign} {self.limit:g}"
        missing = [name for name in (self.ours, self.other) if name is not None and name not in table]
        if missing:
            mark = MISSED if missing[0] == self.ours else "-"
            return f"| {what} | {asked} | {missing[0]} was not measured | {mark} |"
        values = table[self.ours][self.figure]
        if self.other is not None:
            others = table[self.other][self.other_figure or self.figure]
            values = [one / other for one, other in zip(values, others)]
        return f"| {what} | {asked} | {spread(values)} | {judge(values, self.limit, self.at_most)} |"


TARGETS = {
    "A1": [
        Target("towerpack", "rate", 8, "torch"),
        Target("towerpack", "rate", 0.7, "np.copyto"),
        Target("towerpack", "rate", 0.7, "np.copyto, six buffers"),
        Target("towerpack", "cpu_s_per_GB", 0.25, "torch", at_most=True),
    ],
    "A2": [
        target
        for workers in (1, 2)
        for target in (
            Target(f"towerpack, {workers}", "rate", 5, f"torch, {workers}"),
            Target(f"towerpack, {workers}", "rate", 4, f"spdl, {workers}"),
            Target(f"towerpack, {workers}", "rate", 0.7, "bare loop"),
            Target(f"towerpack, {workers}", "rate", 0.7, "bare loop, six buffers"),
        )
    ],
    "B": [Target("towerpack", "rate", 300_000), Target("towerpack", "rate", 5, "tensorpack, 1000 at once")],
    "C": [
        Target("towerpack, processes", "rate", 0.95, "two bare loops, processes"),
        Target("towerpack, threads", "rate", 0.95, "two bare loops, threads"),
        *(
            Target("towerpack, processes", "rate", 1, peer)
            for peer in SUBJECTS["C"]
            if not peer.startswith(("towerpack", "two bare"))
        ),
    ],
    "D": [
        Target("towerpack", "seconds", 1.5, at_most=True),
        Target("towerpack", "copies", 1.3, at_most=True),
    ],
    "E": [Target("plain generators", "rate", 1.2, "towerpack", at_most=True)],
    "F resume": [Target("towerpack", "seconds", 0.010, at_most=True)],
    "F uneven": [
        Target("towerpack", "rate", 1.5, "torch, 64 ahead"),
        Target("towerpack", "rate", 1.5, "grain, 64 ahead"),
    ],
}


class Subject:
    """A process that measures on request."""

    def __init__(self, scenario: str, name: str) -> None:
        """Starts it; it warms up on its own."""
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("_loaders.py")), scenario, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.failure = ""

    def wait_until_ready(self) -> bool:
        """Whether it can be measured; otherwise `failure` has the reason."""
        line = self._line(SECONDS_TO_START)
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
        line = self._line(SECONDS_TO_MEASURE)
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


def compared(scenario: str) -> tuple[Table, dict[str, str]]:
    """All figures of a scenario, and why some subjects have none."""
    table: Table = {}
    failures: dict[str, str] = {}
    deadline = time.monotonic() + SECONDS[scenario]
    with contextlib.ExitStack() as processes:
        ready: list[Subject] = []
        for number in range(ROUNDS):
            if number and time.monotonic() > deadline:
                break
            if not number or scenario in AFRESH:
                processes.close()
                ready = started(scenario, table, failures, processes)
            for subject in ready[:: -1 if number % 2 else 1]:
                measure_once(subject, table, failures)
            ready = [subject for subject in ready if not subject.failure]
    return table, failures


def started(
    scenario: str, table: Table, failures: dict[str, str], processes: contextlib.ExitStack
) -> list[Subject]:
    """The subjects that have not failed yet, warmed up and waiting; `processes` ends them."""
    ready = []
    for name in SUBJECTS[scenario]:
        if name in failures or (_rounds.SMOKE and not name.startswith("towerpack")):
            continue
        subject = Subject(scenario, name)
        processes.callback(subject.stop)
        if subject.wait_until_ready():
            subject.pause(True)
            ready.append(subject)
        else:
            leave_out(subject, subject.failure, table, failures)
    return ready


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


def described(scenario: str, table: Table, failures: dict[str, str]) -> str:
    """The measurements."""
    rounds = max((len_of(table, name) for name in table), default=0)
    lines = [f"## {TITLES[scenario]}", "", "| | median (range) | also |", "| --- | ---: | --- |"]
    for name in SUBJECTS[scenario]:
        if name in failures:
            lines.append(f"| {name} | {failures[name]} | |")
        if name not in table:
            continue
        main, *others = table[name]
        also = ", ".join(
            f"{figure} {median(table[name][figure]):.3g}" for figure in others if wanted(scenario, figure)
        )
        lines.append(f"| {name} | {spread(table[name][main])} | {also} |")
    return "\n".join([*lines, "", f"{rounds} rounds; {_rounds.load()} at the end."])


def judged(scenario: str, table: Table) -> list[str]:
    """How that stands against the targets, as lines of a table."""
    name = TITLES[scenario].partition(".")[0]
    return [f"| {name} {target.judged(table)}" for target in TARGETS[scenario]]


def wanted(scenario: str, figure: str) -> bool:
    """CPU time per GB is meaningful only for GBs of data."""
    return figure != "cpu_s_per_GB" or scenario.startswith("A")


def spread(values: list[float]) -> str:
    """Median and range, with as many digits as mean something."""
    form: Callable[[float], str] = lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: E731
    return f"{form(median(values))} ({form(min(values))} to {form(max(values))})"


def import_time() -> str:
    """The output of benchmarks/import_time.py."""
    script = str(Path(__file__).with_name("import_time.py"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    return f"## Import\n\n```\n{(done.stdout + done.stderr).strip()}\n```"


def main() -> None:
    """Runs the selected scenarios, or all."""
    names = [scenario.split()[0] for scenario in SUBJECTS]
    asked = sys.argv[1:] or [*names, "import"]
    if unknown := set(asked).difference([*names, "import"]):
        known = ", ".join([*dict.fromkeys(names), "import"])
        sys.exit(f"no scenario {', '.join(sorted(unknown))}; there are {known}")
    first, sections, targets = _rounds.heading(*PACKAGES), [], []
    crashed: list[str] = []
    begin = time.monotonic()
    try:
        for scenario in SUBJECTS:
            if scenario.split()[0] in asked:
                table, failures = compared(scenario)
                ours = {name: why for name, why in failures.items() if name.startswith("towerpack")}
                crashed += [f"{scenario}, {name} {why}" for name, why in ours.items()]
                sections.append(described(scenario, table, failures))
                targets += judged(scenario, table)
                print(sections[-1], *judged(scenario, table), "", sep="\n", file=sys.stderr, flush=True)
        if "import" in asked:
            sections.append(import_time())
    except KeyboardInterrupt:
        sections.append("Interrupted here.")
    print(f"# towerpack-dataflow beside other loaders\n\n{first}\n")
    print("| scenario | target | asked | measured | |", "| --- | --- | --- | --- | --- |", *targets, sep="\n")
    print("", *sections, sep="\n\n")
    print(f"\nAll of it took {time.monotonic() - begin:.0f} s.")
    missed = [line for line in targets if line.endswith(f"{MISSED} |")]
    if crashed:
        sys.exit(f"ours gave no figures: {'; '.join(crashed)}")
    if missed and not _rounds.SMOKE:
        sys.exit(f"{len(missed)} targets were missed")


if __name__ == "__main__":
    main()
