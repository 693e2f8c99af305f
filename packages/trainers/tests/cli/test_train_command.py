"""The command that runs a script in place of this process."""

import os
import sys

from towerpack_trainers.__main__ import main


def test_a_script_replaces_the_process(tmp_path, monkeypatch):
    calls, script = [], tmp_path / "train.py"
    script.touch()
    monkeypatch.setattr(os, "execve", lambda *arguments: calls.append(arguments) or sys.exit(0))
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    try:
        main(["train", str(script), "--epochs", "3"])
    except SystemExit as ended:
        assert ended.code == 0
    [(python, arguments, env)] = calls
    assert (python, arguments) == (sys.executable, [sys.executable, str(script), "--epochs", "3"])
    assert env["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_a_script_that_is_not_there(capsys):
    assert main(["train", "missing.py"]) == 1
    assert capsys.readouterr().err == "error: missing.py is not a file; expected a script of Python\n"
