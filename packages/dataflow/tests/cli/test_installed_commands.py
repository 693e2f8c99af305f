"""The command `towerpack`, which runs the commands of installed wheels."""

import os
import re
import shutil
import subprocess
import sys
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


@pytest.fixture
def completion(monkeypatch, capsys):
    """Returns the script for a shell, with the commands of this wheel alone."""
    value = "towerpack_dataflow.__main__:add_commands"
    found = EntryPoints([EntryPoint("dataflow", value, "towerpack.parsers")])
    monkeypatch.setattr(_installed_commands, "entry_points", lambda group: found.select(group=group))

    def script(shell):
        assert run_installed(["--completion", shell]) == 0
        return capsys.readouterr().out

    return script


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("da", "<data>"),
        ("data conv", "<data><convert>"),
        ("data state tr", "<data><state><trace>"),
        ("data convert --pl", "<data><convert><--plain>"),
        ("data convert digi", "<data><convert><digits.csv>"),
        ("--comp", "<--completion>"),
        ("--completion zs", "<--completion><zsh>"),
    ],
)
def test_bash_completes_a_line(completion, tmp_path, typed, run):
    (tmp_path / "completion").write_text(completion("bash"))
    (tmp_path / "digits.csv").touch()
    # The command itself is a function that shows its arguments.
    (tmp_path / "rc").write_text('source ./completion\ntowerpack() { printf "<%s>" "$@"; }\nPS1="ready$ "\n')
    terminal, end = os.openpty()
    env = {"PATH": os.environ["PATH"], "TERM": "dumb", "INPUTRC": os.devnull, "HISTFILE": ""}
    command = ["bash", "--noprofile", "--rcfile", "rc", "-i"]
    with subprocess.Popen(
        command, stdin=end, stdout=end, stderr=end, cwd=tmp_path, env=env, start_new_session=True
    ):
        os.close(end)
        shown = b""
        while b"ready$ " not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, f"towerpack {typed}\t\nexit\n".encode())
        while chunk := read_or_end(terminal):
            shown += chunk
    os.close(terminal)
    assert f"{run}ready$ exit" in shown.decode()


def read_or_end(terminal):
    """Reads from a terminal; on Linux, its end is an error once no process has the other side."""
    try:
        return os.read(terminal, 1000)
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "#compdef towerpack"), ("fish", "complete -c towerpack -f")]
)
def test_scripts_for_other_shells(completion, shell, line):
    script = completion(shell)
    assert line in script.splitlines()
    assert "convert" in script


@pytest.mark.parametrize("arguments", [[], ["csh"], ["bash", "zsh"]])
def test_shells_without_a_script_are_refused(arguments, capsys):
    assert run_installed(["--completion", *arguments]) == 2
    message = r"error: towerpack --completion takes bash, zsh, fish; received (nothing|csh|bash zsh)\n"
    assert re.fullmatch(message, capsys.readouterr().err)


def test_completion_names_its_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert run_installed(["--completion", "bash"]) == 1
    shown = capsys.readouterr().err
    assert shown == 'error: completion needs `pip install "towerpack-dataflow[completion]"`\n'
