"""`python -m towerpack_compat run`."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_a_script_gets_its_arguments_and_its_folder(python, tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "beside.py").write_text("VALUE = 7\n")
    (tmp_path / "programs" / "script.py").write_text(
        "import sys\nfrom beside import VALUE\nprint(__name__, sys.argv[1:], VALUE)\n"
    )
    printed = python("-m", "towerpack_compat", "run", "programs/script.py", "--epochs", "3")
    assert printed.splitlines()[-1] == "__main__ ['--epochs', '3'] 7"


def test_the_status_of_the_script_is_that_of_the_command(python, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(5)\n")
    python("-m", "towerpack_compat", "run", "script.py", status=5)


def test_an_error_of_the_package_is_one_line(python, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from tensorpack.callbacks import InjectShell\nInjectShell()\n")
    *_, place, error = python("-m", "towerpack_compat", "run", "script.py", status=1).splitlines()
    assert place == f'  File "{tmp_path / "script.py"}", line 2'
    assert error.startswith("error: tensorpack's InjectShell has no counterpart.")


def test_a_script_runs_as_the_main_module_of_python(python, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "script.py").write_text(
        "import os, pickle, sys\n"
        "os.chdir('/')\n"
        "class Mine:\n"
        "    size: int\n"
        "print(__file__, sys.argv, type(pickle.loads(pickle.dumps(Mine()))) is Mine, Mine.__annotations__)\n"
    )
    printed = python("-m", "towerpack_compat", "run", "folder/script.py", "--", "-m")
    place = tmp_path / "folder" / "script.py"
    assert printed.splitlines()[-1] == f"{place} ['folder/script.py', '--', '-m'] True {{'size': {int}}}"


def test_a_module_runs_by_its_name(python, tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "beside.py").write_text("VALUE = 7\n")
    (tmp_path / "program" / "train.py").write_text(
        "import sys\nimport tensorpack\nfrom .beside import VALUE\nprint(__name__, sys.argv[1:], VALUE)\n"
    )
    printed = python("-m", "towerpack_compat", "run", "-m", "program.train", "-m", "x")
    assert printed.splitlines()[-1] == "__main__ ['-m', 'x'] 7"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nothing.py"], "The script cannot be read: [Errno 2] No such file or directory: 'nothing.py'."),
        (["--dry-run", "0", "nothing.py"], "--dry-run takes a number of steps, at least 1; received 0."),
    ],
)
def test_wrong_arguments_are_an_error_of_one_line(python, arguments: list[str], error: str) -> None:
    assert python("-m", "towerpack_compat", "run", *arguments, status=1).splitlines() == [f"error: {error}"]


def test_tensorpack_counts_where_the_script_would_import_it(python, tmp_path: Path) -> None:
    (tmp_path / "tensorpack").mkdir()
    (tmp_path / "tensorpack" / "__init__.py").write_text("")
    (tmp_path / "examples").mkdir()
    for place in (tmp_path, tmp_path / "examples"):
        (place / "script.py").write_text("import tensorpack\nprint(tensorpack.__version__)\n")
    # As in Python, the current directory is not on the path of a script.
    assert python("-m", "towerpack_compat", "run", "examples/script.py").splitlines()[-1] == "0.11"
    printed = python("-m", "towerpack_compat", "run", "script.py", status=1)
    assert f"error: tensorpack is installed at {tmp_path / 'tensorpack'}" in printed
