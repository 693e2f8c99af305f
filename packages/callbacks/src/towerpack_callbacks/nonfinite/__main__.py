"""`python -m towerpack_callbacks.nonfinite FOLDER` runs a failing step again and prints the origin."""

from __future__ import annotations

import argparse
import sys

from ._terminate_on_nan import replay

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Prints the origin that `replay` finds.

    Returns:
        0 if a non-finite value occurred again, 1 if not.
    """
    parser = argparse.ArgumentParser(prog="python -m towerpack_callbacks.nonfinite", description=__doc__)
    parser.add_argument(
        "folder", help="a folder written by TerminateOnNaN, such as train_log/mine/nonfinite-1000"
    )
    origin = replay(parser.parse_args(arguments).folder)
    print("All values are finite this time." if origin is None else origin.text)
    return 1 if origin is None else 0


if __name__ == "__main__":
    sys.exit(main())
