"""`python -m towerpack_callbacks`: runs a training, and inspects its log directory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import CheckpointError
from .cli import _run_script
from .cli._checkpoint_commands import add_checkpoint
from .cli._command_line import CheckpointCommandError
from .cli._plot_command import add_plot
from .plot._read_record import RunError

__all__ = ["add_commands", "main"]


def add_commands(commands: Any) -> None:
    """Adds all commands to `ArgumentParser.add_subparsers()`."""
    add_plot(commands)
    add_checkpoint(commands)
    _add_train(commands)


def _add_train(commands: Any) -> None:
    """Adds the command that runs a script to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "train",
        help="run a script, without TensorFlow's lines of information",
        description="Runs a script with this Python, in place of this process. TF_CPP_MIN_LOG_LEVEL is 1 "
        "unless the environment sets it: TensorFlow prints warnings and errors, without information. The "
        "lines of information during its import, which that variable does not hide, are left out, too.",
    )
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_train)


def _train(options: argparse.Namespace) -> int:
    # In this wheel, which imports TensorFlow at the first use of a name: before the script runs, TensorFlow
    # is not imported and prints nothing.
    if not Path(options.script).is_file():
        raise CheckpointCommandError(f"{options.script} is not a file; expected a script of Python")
    sys.stdout.flush()
    env = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ}
    runner = [_run_script.__file__] if env["TF_CPP_MIN_LOG_LEVEL"] != "0" else []
    os.execve(sys.executable, [sys.executable, *runner, options.script, *options.arguments], env)


def main(arguments: Sequence[str] | None = None, program: str = "python -m towerpack_callbacks") -> int:
    """Runs a command and returns the exit status: 0 on success, 1 on failure, 130 after Ctrl-C.

    Raises:
        SystemExit: the arguments are invalid; its status is 2.
    """
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reading process, such as `head`, has ended. Without this, Python would report an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (CheckpointCommandError, RunError, CheckpointError, OSError, ImportError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
