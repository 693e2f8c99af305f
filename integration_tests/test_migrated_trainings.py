"""What `migrate` makes of scripts in Tensorpack's style trains, once the marked work is done."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# What is reached at the end: a statistic, and whether it lies above or below a value.
REACHED = {
    "augmentation": ("validation_accuracy", 0.6, 1.0),
    "dqn": ("expreplay/mean_score", 0.3, 1.0),
    "gan": ("d_loss", 0.0, 2.0),
    "horovod_training": (None, 0.0, 0.0),
    "inference": (None, 0.0, 0.0),  # it asserts its accuracy
    "resnet": ("validation_error", 0.0, 0.4),
    "rnn": ("validation_cost", 0.0, 0.1),
}


def arguments(name, script):
    if name != "horovod_training":
        return [sys.executable, str(script)]
    return [sys.executable, "-m", "towerpack_trainers", "launch", "--processes", "2", str(script)]


@pytest.mark.parametrize("name", REACHED)
def test_a_finished_script_trains(migration, name, tmp_path):
    script = tmp_path / f"{name}.py"
    script.write_text(migration.finished(name))
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = arguments(name, script)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = (tmp_path / "train_log").glob("*/stats.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    statistic, low, high = REACHED[name]
    if statistic is not None:
        values = [row[statistic] for row in rows if statistic in row]
        assert low < values[-1] < high, values
