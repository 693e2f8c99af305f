"""`python -m towerpack_trainers migrate` starts towerpack-compat's command, or names the missing package."""

import subprocess
import sys

from towerpack_trainers.__main__ import main


def test_it_starts_the_other_command_with_all_arguments(monkeypatch, capsys):
    started = []

    def run(command, check):
        started.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr("towerpack_trainers.cli._run_commands.find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    assert main(["migrate", "--write", "a.py", "--help"]) == 3
    [command] = started
    assert command == [sys.executable, "-m", "towerpack_compat", "migrate", "--write", "a.py", "--help"]
    assert "use `python -m towerpack_compat migrate`" in capsys.readouterr().err


def test_without_the_other_package_it_names_the_installation(monkeypatch, capsys):
    monkeypatch.setattr("towerpack_trainers.cli._run_commands.find_spec", lambda name: None)
    assert main(["migrate", "a.py"]) == 1
    assert 'pip install "towerpack-compat[migrate]"' in capsys.readouterr().err
