"""Writes the golden checkpoints that are not there yet: `python write.py`.

What is there is never written again: later versions have to load what an earlier one has written. A format
or a random stream that changes adds a kind of training here, under a new name, and a line to the changelog.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from golden_training import KINDS, SAVED_STEP, configure, save_arrays, trainer_of

from towerpack_callbacks.__main__ import main as towerpack_callbacks
from towerpack_trainers.distributed import launch

HERE = Path(__file__).parent


def train(kind, log_dir, stop_at, resume=None):
    """Trains up to a step; returns the first inputs of each tower or process."""
    if kind != "processes":
        config, record = configure(kind, log_dir, stop_at=stop_at, resume=resume)
        trainer_of(kind, config).train()
        return record.first_taken
    options = ["--stop-at", str(stop_at), *(["--resume", resume] if resume else [])]
    assert launch([sys.executable, str(HERE / "golden_training.py"), str(log_dir), *options], 2) == 0
    taken = [np.load(log_dir.with_name(f"{log_dir.name}-taken-{rank}.npz")) for rank in range(2)]
    return [[arrays["x"], arrays["y"]] for arrays in taken]


def write(kind, target, scratch):
    """Stops a training in the middle of an epoch, and keeps the files for its resumption."""
    log_dir, made = scratch / kind, scratch / f"{kind}-golden"
    train(kind, log_dir, SAVED_STEP + 1)
    shutil.copytree(log_dir / f"model-{SAVED_STEP}", made / f"model-{SAVED_STEP}")
    shutil.copy(log_dir / "stats.jsonl", made)
    exported = ["checkpoint", "export", str(log_dir), "--output", str(made / "variables.npz")]
    assert towerpack_callbacks(exported) == 0
    taken = train(kind, log_dir, SAVED_STEP + 1, resume="auto")
    arrays = {f"{name}{tower}": array for tower, pair in enumerate(taken) for name, array in zip("xy", pair)}
    save_arrays(made / "next_taken.npz", arrays)
    shutil.copytree(made, target)  # fails if it exists


def main():
    """Writes missing checkpoints; returns 1 if none is missing."""
    missing = [kind for kind in KINDS if not (HERE / kind).exists()]
    if not missing:
        print("all golden checkpoints are there, and none is ever written again", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        for kind in missing:
            write(kind, HERE / kind, Path(scratch))
            print(kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
