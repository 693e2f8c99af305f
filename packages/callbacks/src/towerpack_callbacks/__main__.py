"""`python -m towerpack_callbacks`: runs a training, and inspects its log directory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import CheckpointError
from .cli._checkpoint_commands import add_checkpoint
from .cli._command_line import CheckpointCommandError
from .cli._plot_command import add_plot
from .cli._train_command import add_train
from .plot._read_record import RunError

__all__ = ["add_commands", "main"]


def add_commands(commands: Any) -> None:
    """Adds all commands to `ArgumentParser.add_subparsers()`."""
    add_plot(commands)
    add_checkpoint(commands)
    add_train(commands)


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
