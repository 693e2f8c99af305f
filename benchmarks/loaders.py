"""Our loader for PyTorch beside the loaders that PyTorch and JAX users have, from the data to the consumer.

    python benchmarks/loaders.py [--smoke] [SCENARIO …]      A B C D E F; all by default
    nox -s bench -- loaders                         with the peers installed

A: a folder of JPEG files into a consumer that touches each batch, and into one that trains a small ResNet-18.
B: documents of tokens in a memory map, padded in batches of a budget. C: tables of Parquet and Arrow. D: the
first batch of a folder with a million files. E: resuming in the middle of an epoch. F: eight ranks.

Subjects (see _feed_*.py) have a process each and are measured in interleaved rounds, as in dataflow.py. CPU
time and memory include the consumer's process. The last rounds are left out on a busy machine, and the table
says so. Prints Markdown for RESULTS.md, and fails if a target was missed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import _feed_data
from _comparison import BEST, Comparison, Target
from _feed_subjects import SUBJECTS

PACKAGES = (
    "towerpack-dataflow",
    "numpy",
    "torch",
    "torchvision",
    "torchdata",
    "grain",
    "webdataset",
    "datasets",
    "spdl-core",
    "tensorflow",
    "pyarrow",
    "opencv-python-headless",
)
TITLES = {
    "A touch": "A touch. JPEG folder, batches of 64, 4 workers, each batch is touched (images/s)",
    "A train": "A train. JPEG folder, batches of 64, 4 workers, a small ResNet-18 trains (images/s)",
    "B": "B. Tokens from a memory map in padded batches of 16,384, 2 workers (tokens/s without padding)",
    "C Parquet": "C Parquet. Batches of 4096 rows of 12 columns, in order (rows/s)",
    "C Arrow": "C Arrow. Batches of 4096 rows of 12 columns, shuffled (rows/s)",
    "D": "D. A folder with 1,000,000 files, 4 workers (seconds from nothing to the first batch)",
    "E alone": "E alone. Resuming at batch 10,000 of a shuffled epoch, no workers (seconds to a batch)",
    "E workers": "E workers. The same with 2 workers",
    "F": "F. Eight ranks share an epoch, 1 worker each (seconds of the slowest)",
}
SECONDS = dict.fromkeys(TITLES, 150.0)
AGAINST_IMAGES = [
    Target("towerpack", "rate", 1.2, BEST),
    Target("towerpack", "cpu_us_per_item", 0.8, BEST, at_most=True),
    Target("towerpack", "MB", 0.5, BEST, at_most=True),
]
TARGETS = {
    "A touch": AGAINST_IMAGES,
    "A train": AGAINST_IMAGES,
    "B": [Target("towerpack", "rate", 2, BEST)],
    "C Parquet": [Target("towerpack", "rate", 2, BEST)],
    "C Arrow": [Target("towerpack", "rate", 2, BEST)],
    "D": [Target("towerpack", "seconds", 0.5, BEST, at_most=True)],
    "E alone": [Target("towerpack", "seconds", 0.1, BEST, at_most=True)],
    "E workers": [Target("towerpack", "seconds", 0.1, BEST, at_most=True)],
    "F": [
        Target("towerpack", "not_once", 0, at_most=True),
        Target("towerpack", "uneven", 0.02, at_most=True),
    ],
}


def main() -> None:
    """Writes the data, and runs the selected scenarios, or all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _feed_data.write_pictures(folder)
        _feed_data.write_documents(folder)
        _feed_data.write_tables(folder)
        _feed_data.write_many_files(folder)
        comparison = Comparison(
            script="_feed_subjects.py",
            subjects={scenario: SUBJECTS[scenario] for scenario in TITLES},
            titles=TITLES,
            targets=TARGETS,
            seconds=SECONDS,
            start_limit=180.0,
            measure_limit=120.0,
            environment={"BENCHMARK_FOLDER": name, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        comparison.run("The loader for PyTorch beside other loaders", PACKAGES, {})


if __name__ == "__main__":
    main()
