"""What `migrate` makes of scripts in Tensorpack's style is as before, stays so when run again, and trains."""

import json
import runpy
import sys

import pytest

from towerpack_compat.__main__ import main
from towerpack_compat.cli.migrate import migrate_file, migrate_source

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
# To write the rewritten forms anew: `python -m towerpack_compat migrate --write` of copies, and look.


def test_all_scripts_are_tested(migration):
    assert migration.NAMES == NAMES
    assert [path.stem for path in sorted((migration.HERE / "after").glob("*.py"))] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_rewritten_as_before(migration, name):
    expected = (migration.HERE / "after" / f"{name}.py").read_bytes()
    assert migrate_file(migration.HERE / "before" / f"{name}.py").after == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing(migration, name):
    once = (migration.HERE / "after" / f"{name}.py").read_bytes()
    again = migrate_source(once)
    assert again.after == once and not again.diff(name)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_marked_is_left_by_hand(migration, name):
    """The sections that the comments name are those of the work that was done for the test."""
    marked = bool(migrate_file(migration.HERE / "before" / f"{name}.py").by_hand)
    assert marked or name not in migration.CHANGES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "statistic"), [("convnet", "accuracy"), ("own_callback", "confusion_accuracy")]
)
@pytest.mark.filterwarnings("ignore")  # for older spellings that layers still take
def test_a_rewritten_script_trains(migration, name, statistic, tmp_path, monkeypatch):
    script = tmp_path / f"{name}.py"
    script.write_text(migration.finished(name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    [file] = (tmp_path / "train_log").glob("*/stats.jsonl")
    last = json.loads(file.read_text().splitlines()[-1])
    assert max(value for key, value in last.items() if key.endswith(statistic)) > 0.8


def test_the_command_writes_what_it_shows(migration, tmp_path, capsys):
    script = tmp_path / "convnet.py"
    script.write_bytes((migration.HERE / "before" / "convnet.py").read_bytes())
    script.chmod(0o755)
    assert main(["migrate", str(script)]) == 0
    assert "+from towerpack_trainers import ModelDesc" in capsys.readouterr().out
    assert main(["migrate", "--write", str(script)]) == 0
    assert script.read_bytes() == (migration.HERE / "after" / "convnet.py").read_bytes()
    assert script.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [script]
