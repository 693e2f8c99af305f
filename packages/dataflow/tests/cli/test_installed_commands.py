"""The command `towerpack`, which runs the commands of installed wheels."""

from importlib.metadata import EntryPoint, EntryPoints, version

import pytest

from towerpack_dataflow.cli import _installed_commands, run_installed


def run_other(arguments, program):
    """A command of another wheel."""
    print(program, *arguments)
    return 7


@pytest.fixture
def installed(monkeypatch):
    """Makes entry points without wheels the installed ones."""

    def install(**values):
        found = EntryPoints(EntryPoint(name, value, "towerpack.commands") for name, value in values.items())
        monkeypatch.setattr(_installed_commands, "entry_points", lambda group: found.select(group=group))

    return install


def test_a_command_gets_its_name_and_arguments(installed, capsys):
    installed(other=f"{__name__}:run_other")
    assert run_installed(["other", "-x", "y"]) == 7
    assert capsys.readouterr().out == "towerpack other -x y\n"


def test_an_unknown_command_is_refused_with_those_that_are_installed(capsys):
    assert run_installed(["dance"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: towerpack has no command 'dance'.\n")
    assert "towerpack-dataflow: data\n" in shown


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_commands_are_listed_by_wheel(arguments, capsys):
    assert run_installed(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: towerpack COMMAND")
    assert "  towerpack-dataflow: data" in shown


def test_versions_of_all_wheels(capsys):
    assert run_installed(["--version"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"towerpack-dataflow {version('towerpack-dataflow')}"
    assert len(others) == 5


def test_the_command_of_this_wheel(capsys):
    with pytest.raises(SystemExit) as ended:
        run_installed(["data", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: towerpack data ")
