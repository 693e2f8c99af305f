"""`python -m towerpack_trainers`: trains in several processes, predicts, exports models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from towerpack_callbacks import CheckpointError, TensorNotFoundError

from ._errors import ConfigError, ExportError, ModelError, RestoreError, TraceError
from .cli._model_commands import TrainerCommandError, add_describe, add_export, add_predict
from .cli._run_commands import add_env, add_launch, add_migrate, add_trace

__all__ = ["add_commands", "main"]

# The errors of wrong arguments. All others are bugs, of the model or of this package, and show a traceback.
_OF_THE_USER = (
    TrainerCommandError,
    ConfigError,
    ModelError,
    RestoreError,
    ExportError,
    TraceError,
    CheckpointError,
    TensorNotFoundError,
    OSError,
    ImportError,
)


def add_commands(commands: Any) -> None:
    """Adds all commands of this package to `ArgumentParser.add_subparsers()`."""
    for add in (add_launch, add_export, add_predict, add_describe, add_env, add_trace):
        add(commands)


def main(arguments: Sequence[str] | None = None, program: str = "python -m towerpack_trainers") -> int:
    """Runs a command, and returns the exit status: 0, 1 if the command fails, 130 after Ctrl-C.

    `migrate` may also return 3: some work is left to a person.

    Raises:
        SystemExit: the arguments are invalid; its status is 2.
    """
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_commands(commands)
    add_migrate(commands)  # now of towerpack-compat, whose command `towerpack` runs
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except _OF_THE_USER as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
