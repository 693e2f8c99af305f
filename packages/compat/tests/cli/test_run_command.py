"""`python -m towerpack_compat run`."""

from __future__ import annotations

from pathlib import Path


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
    printed = python("-m", "towerpack_compat", "run", "script.py", status=1)
    assert printed.splitlines()[-1].startswith("error: tensorpack's InjectShell has no counterpart.")
