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

import subprocess
import sys
from pathlib import Path

from _comparison import Comparison, Target
from _loaders import SUBJECTS

SECONDS = {"A1": 90, "A2": 180, "B": 90, "C": 300, "D": 120, "E": 120, "F resume": 50, "F uneven": 60}
# Their ratios are close to their limits, and the same code takes a few percent more or less in one process
# than in the next, for as long as that lives: so each round has new ones.
AFRESH = frozenset({"C", "E"})
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


def import_time() -> str:
    """The output of benchmarks/import_time.py."""
    script = str(Path(__file__).with_name("import_time.py"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    return f"## Import\n\n```\n{(done.stdout + done.stderr).strip()}\n```"


def main() -> None:
    """Runs the selected scenarios, or all."""
    comparison = Comparison(
        script="_loaders.py",
        subjects=SUBJECTS,
        titles=TITLES,
        targets=TARGETS,
        seconds=SECONDS,
        afresh=AFRESH,
        hidden={"cpu_s_per_GB": "A"},  # meaningful only for GBs of data
    )
    comparison.run("towerpack-dataflow beside other loaders", PACKAGES, {"import": import_time})


if __name__ == "__main__":
    main()
