"""The command that runs a script in place of this process."""

import os
import subprocess
import sys

from towerpack_callbacks.__main__ import main


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


def test_the_command_does_not_import_tensorflow(tmp_path):
    """Or TensorFlow would print its lines twice, and the script would start seconds later."""
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    script = tmp_path / "train.py"
    script.write_text("import sys; print('ran', *sys.argv[1:])")
    command = [sys.executable, "-m", "towerpack_callbacks", "train", str(script), "--epochs", "3"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("ran --epochs 3\n", "")
