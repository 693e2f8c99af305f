"""Migrated scripts in Tensorpack's style run to their end, and reach their targets."""

import json
import os
import subprocess
import sys

import pytest

from towerpack_compat.migrate import migrate_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# The final statistic, and its lower or upper limit.
REACHED = {
    "augmentation": ("validation_accuracy", 0.6, 1.0),
    "dqn": ("expreplay/mean_score", 0.3, 1.0),
    "gan": ("d_loss", 0.0, 2.0),
    "resnet": ("validation_error", 0.0, 0.4),
    "rnn": ("validation_cost", 0.0, 0.1),
}


@pytest.mark.parametrize("name", REACHED)
def test_a_rewritten_script_reaches_its_end(migration, name, tmp_path):
    script = tmp_path / f"{name}.py"
    script.write_bytes(migrate_source((migration / f"{name}.py").read_bytes()).after)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = (tmp_path / "train_log").glob("*/stats.json")
    rows = json.loads(file.read_text())
    statistic, low, high = REACHED[name]
    values = [row[statistic] for row in rows if statistic in row]
    assert low < values[-1] < high, values
