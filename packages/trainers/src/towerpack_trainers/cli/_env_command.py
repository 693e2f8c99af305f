"""`env`: prints the versions, devices and settings that a report of a bug needs."""

from __future__ import annotations

import argparse
from typing import Any

from ..reports import collect_env_info

__all__ = ["add_env"]


def add_env(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "env",
        help="print versions, devices and settings, for a report of a bug",
        description="Prints the versions of Towerpack and of what it runs on, the devices that TensorFlow "
        "finds, and the environment variables that change how it runs.",
    )
    parser.set_defaults(run=_env)


def _env(options: argparse.Namespace) -> int:
    print(collect_env_info())
    return 0
