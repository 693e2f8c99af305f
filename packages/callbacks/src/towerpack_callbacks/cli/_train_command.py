"""`train`: runs a script without TensorFlow's lines of information.

It is in this wheel, which imports TensorFlow at the first use of a name: before the script runs, TensorFlow
is not imported and prints nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from . import _run_script
from ._command_line import CheckpointCommandError

__all__ = ["add_train"]


def add_train(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
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
    if not Path(options.script).is_file():
        raise CheckpointCommandError(f"{options.script} is not a file; expected a script of Python")
    sys.stdout.flush()
    env = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ}
    runner = [_run_script.__file__] if env["TF_CPP_MIN_LOG_LEVEL"] != "0" else []
    os.execve(sys.executable, [sys.executable, *runner, options.script, *options.arguments], env)
