"""Scripts in Tensorpack's style that `migrate` rewrites stay unchanged in a second run, and train."""

import json
import os
import subprocess
import sys

import pytest

from towerpack_compat.__main__ import main
from towerpack_compat.migrate import migrate_source

NAMES = [
    "augmentation",
    "convnet",
    "dqn",
    "gan",
    "horovod_training",
    "inference",
    "own_callback",
    "resnet",
    "rnn",
]


def migrated(migration, name):
    return migrate_source((migration / f"{name}.py").read_bytes(), name)


def test_all_scripts_are_tested(migration):
    assert [path.stem for path in sorted(migration.glob("*.py"))] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing_and_no_line_is_marked(migration, name):
    once = migrated(migration, name)
    again = migrate_source(once.after)
    assert again.after == once.after != once.before and not again.diff(name)
    assert not once.by_hand


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        pytest.param("convnet", "validation_accuracy", marks=pytest.mark.long),
        ("own_callback", "confusion_accuracy"),
    ],
)
def test_a_rewritten_script_trains(migration, name, statistic, tmp_path):
    script = tmp_path / f"{name}.py"
    script.write_bytes(migrated(migration, name).after)
    command = [sys.executable, str(script)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = (tmp_path / "train_log").glob("*/stats.json")
    last = json.loads(file.read_text())[-1]
    assert max(value for key, value in last.items() if key.endswith(statistic)) > 0.8


def test_the_command_writes_what_it_shows(migration, tmp_path, capsys):
    script = tmp_path / "convnet.py"
    script.write_bytes((migration / "convnet.py").read_bytes())
    script.chmod(0o755)
    assert main(["migrate", str(script)]) == 0
    assert "+from towerpack_dataflow import BatchData" in capsys.readouterr().out
    assert main(["migrate", "--write", str(script)]) == 0
    assert script.read_bytes() == migrated(migration, "convnet").after
    assert script.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [script]
