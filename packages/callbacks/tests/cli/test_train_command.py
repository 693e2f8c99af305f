"""The command that runs a script in place of this process, without TensorFlow's lines of information."""

import os
import signal
import subprocess
import sys

import pytest

from towerpack_callbacks.__main__ import main

LINES = """
import os, sys
def log(line):
    os.write(2, f"{line}\\n".encode())
log("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR")
log("I0000 00:00:17 3 port.cc:153] oneDNN is on.")
log("W0000 00:00:17 3 a.cc:1] a warning")
print("a line of Python", file=sys.stderr)
log("E0000 00:00:17 3 a.cc:1] an error")
"""
KEPT = "W0000 00:00:17 3 a.cc:1] a warning\na line of Python\nE0000 00:00:17 3 a.cc:1] an error\n"


@pytest.fixture
def run(tmp_path):
    """Runs a script with a package `tensorflow` that prints lines while it is imported."""

    def run(script, tensorflow=LINES, **variables):
        (tmp_path / "tensorflow.py").write_text(tensorflow)
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "train.py").write_text(script)
        command = [sys.executable, "-m", "towerpack_callbacks", "train", "project/train.py", "--epochs", "3"]
        env = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        env |= {"PYTHONPATH": str(tmp_path), **variables}
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    return run


def test_a_script_that_is_not_there(capsys):
    assert main(["train", "missing.py"]) == 1
    assert capsys.readouterr().err == "error: missing.py is not a file; expected a script of Python\n"


def test_the_command_does_not_import_tensorflow(run):
    """Or TensorFlow would print its lines twice, and the script would start seconds later."""
    done = run("import sys; print('ran', *sys.argv[1:])", "raise SystemExit('TensorFlow was imported')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran --epochs 3\n", "")


def test_lines_of_information_during_the_import_are_left_out(run):
    done = run("import tensorflow, os; os.write(2, b'I0000 later\\n')")
    assert (done.returncode, done.stderr) == (0, f"{KEPT}I0000 later\n")


def test_all_lines_are_printed_at_level_0(run):
    assert "oneDNN is on" in run("import tensorflow", TF_CPP_MIN_LOG_LEVEL="0").stderr


def test_the_last_lines_of_an_import_that_ends_the_process(run):
    done = run("import tensorflow", f"{LINES}\nlog('F0000 no AVX')\nos.abort()")
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, f"{KEPT}F0000 no AVX\n")


def test_an_import_that_fails(run):
    done = run("import tensorflow", f"{LINES}\nraise ValueError('wrong')")
    assert done.returncode == 1
    assert done.stderr.startswith(KEPT) and done.stderr.endswith("ValueError: wrong\n")


def test_a_script_is_the_main_module_of_its_process(run, tmp_path):
    """Python searches its folder for modules, spawns its processes, and ends with its exit status."""
    done = run(
        "import multiprocessing, sys\n"
        "def work(queue): queue.put(__name__)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=work, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get(timeout=30), __file__, sys.path[0].endswith('project'))\n"
        "    process.join()\n"
        "    sys.exit(3)\n"
    )
    file = tmp_path / "project" / "train.py"
    assert (done.returncode, done.stdout, done.stderr) == (3, f"__mp_main__ {file} True\n", "")


def test_a_script_has_its_own_future_statements(run):
    done = run("def f(x: int): pass\nprint(f.__annotations__)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{'x': <class 'int'>}\n", "")


def test_a_process_without_standard_error(run):
    done = run("import os\nos.close(2)\nimport tensorflow\nprint('imported')", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported\n", "")


def test_a_script_is_the_main_module_until_its_process_ends(run):
    done = run("import atexit, sys\natexit.register(lambda: print(sys.modules['__main__'].__file__[-8:]))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "train.py\n", "")


def test_tensorflow_itself(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import tensorflow as tf; print(tf.constant(1).numpy())")
    command = [sys.executable, "-m", "towerpack_callbacks", "train", str(script)]
    env = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1\n"
    assert not [line for line in done.stderr.splitlines() if line.startswith(("I0000", "WARNING"))]
