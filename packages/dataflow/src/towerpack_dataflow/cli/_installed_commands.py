"""The command `towerpack`: runs the commands of all installed wheels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

__all__ = ["run_installed"]

# Each entry point is a command. Its value is a function that takes the arguments, beginning with the name of
# the command, and the name of the program, and returns the exit status.
_GROUP = "towerpack.commands"
_WHEELS = tuple(
    f"towerpack-{wheel}" for wheel in ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")
)
_USAGE = """usage: towerpack COMMAND [ARGUMENTS]
       towerpack [--help | --version]
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
    if given[0] not in found:
        print(f"error: towerpack has no command {given[0]!r}.\n{_listed(found)}", file=sys.stderr)
        return 2
    run: Callable[[Sequence[str], str], int] = found[given[0]].load()
    return run(given, "towerpack")


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
