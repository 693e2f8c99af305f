"""The command `towerpack`: runs the commands of all installed wheels, and completes them in a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

__all__ = ["run_installed"]

# Each entry point is a command. Its value is a function that takes the arguments, beginning with the name of
# the command, and the name of the program, and returns the exit status.
_GROUP = "towerpack.commands"
# The value of each is a function that adds the commands of a wheel to `ArgumentParser.add_subparsers()`.
_PARSERS = "towerpack.parsers"
_SHELLS = ("bash", "zsh", "fish")
# Arguments that a shell completes by names of files, by their names in `--help`.
_FILES = {"CHECKPOINT", "FILE", "LOGDIR", "NAME=FILE", "PATH", "SOURCE", "TARGET", "TRACE", "file", "script"}
_WHEELS = tuple(
    f"towerpack-{wheel}" for wheel in ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")
)
_USAGE = """usage: towerpack COMMAND [ARGUMENTS]
       towerpack [--help | --version | --completion {bash,zsh,fish}]
"""


def run_installed(arguments: Sequence[str] | None = None) -> int:
    """Runs a command of an installed wheel, and returns its exit status; 2 for an unknown command.

    Args:
        arguments: the command and its arguments; None: those of this process.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    found = {entry.name: entry for entry in sorted(entry_points(group=_GROUP))}
    if not given or given[0] in {"-h", "--help"}:
        print(_USAGE + _listed(found))
        return 0
    if given[0] == "--version":
        print("\n".join(f"{wheel} {_version(wheel) or 'is not installed'}" for wheel in _WHEELS))
        return 0
    if given[0] == "--completion":
        return _print_completion(given[1:])
    if given[0] not in found:
        print(f"error: towerpack has no command {given[0]!r}.\n{_listed(found)}", file=sys.stderr)
        return 2
    run: Callable[[Sequence[str], str], int] = found[given[0]].load()
    return run(given, "towerpack")


def _print_completion(shells: Sequence[str]) -> int:
    """Prints the script that completes commands and options of all installed wheels in a shell."""
    if len(shells) != 1 or shells[0] not in _SHELLS:
        given = " ".join(shells) or "nothing"
        print(f"error: towerpack --completion takes {', '.join(_SHELLS)}; received {given}", file=sys.stderr)
        return 2
    try:
        import shtab
    except ImportError:
        print('error: completion needs `pip install "towerpack-dataflow[completion]"`', file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(prog="towerpack")
    parser.add_argument("--version", action="store_true", help="print the versions of all wheels")
    parser.add_argument("--completion", choices=_SHELLS, help="print a script that completes commands")
    commands = parser.add_subparsers(metavar="COMMAND")
    for entry in sorted(entry_points(group=_PARSERS)):
        entry.load()(commands)
    for action in _actions(parser):
        if (action.metavar or action.dest) in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shells[0]))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _listed(found: dict[str, EntryPoint]) -> str:
    lines = ["commands of the installed wheels; `towerpack COMMAND --help` describes one:"]
    for wheel in _WHEELS:
        names = [name for name, entry in found.items() if entry.dist is not None and entry.dist.name == wheel]
        if names:
            lines.append(f"  {wheel}: {', '.join(names)}")
    missing = [wheel for wheel in _WHEELS if _version(wheel) is None]
    if missing:
        lines.append(f"not installed: {', '.join(missing)}")
    return "\n".join(lines)


def _version(wheel: str) -> str | None:
    try:
        return version(wheel)
    except PackageNotFoundError:
        return None
