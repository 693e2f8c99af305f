"""`env`: prints versions, devices and settings for a bug report."""

from __future__ import annotations

import argparse
from typing import Any

from ..reports import collect_env_info

__all__ = ["add_env"]


def add_env(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "env",
        help="print versions, devices and settings for a bug report",
        description="Prints the versions of Towerpack and its dependencies, the devices that TensorFlow "
        "finds, and the environment variables that affect them.",
    )
    parser.set_defaults(run=_env)


def _env(options: argparse.Namespace) -> int:
    print(collect_env_info())
    return 0
