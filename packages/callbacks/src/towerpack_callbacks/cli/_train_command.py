"""`train`: runs a script with fewer lines of TensorFlow.

It is in this wheel, which imports TensorFlow at the first use of a name: before the script runs, TensorFlow
is not imported and prints nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ._command_line import CheckpointCommandError

__all__ = ["add_train"]


def add_train(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "train",
        help="run a script, with fewer lines of TensorFlow",
        description="Runs a script with this Python, in place of this process. TF_CPP_MIN_LOG_LEVEL is 1 "
        "unless the environment sets it: TensorFlow prints warnings and errors, without information.",
    )
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_train)


def _train(options: argparse.Namespace) -> int:
    if not Path(options.script).is_file():
        raise CheckpointCommandError(f"{options.script} is not a file; expected a script of Python")
    sys.stdout.flush()
    env = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ}
    os.execve(sys.executable, [sys.executable, options.script, *options.arguments], env)
