"""Computes all cases, by Tensorpack where it is installed and else by towerpack-compat.

`python compute.py FOLDER [--other FOLDER] [--only REGEX]` writes one file for each case. With `--other`, the
cases of files read those that the other library has written there.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES, flat

AREAS = ("augmentor", "flow", "file", "tool", "layer", "training")
SECONDS = 120  # that a case may take


def main() -> None:
    """Runs the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["VALUES_FOLDER"] = str(options.folder.resolve())
    os.environ["VALUES_OTHER"] = "" if options.other is None else str(options.other.resolve())
    signal.signal(signal.SIGALRM, _stop)
    prepare()
    for area in AREAS:
        importlib.import_module(f"{area}_cases")
    for name, function in CASES.items():
        if not re.search(options.only, name):
            continue
        arrays = _compute(name, function)
        # A worker of Tensorpack may lose a datapoint, for which its reader then waits.
        if "TimeoutError" in str(arrays.get("error")) and "towerpack_compat" not in sys.modules:
            arrays = _compute(name, function)
        path = options.folder / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{key.replace("/", "|"): value for key, value in arrays.items()})


def _compute(name: str, function: Callable[[], Any]) -> dict[str, Any]:
    """Returns the arrays of a case, or its error."""
    signal.alarm(SECONDS)
    try:
        return dict(flat(function()))
    except Exception as error:
        print(f"{name}: {traceback.format_exc(limit=-3)}", flush=True)
        return {"error": np.array(f"{type(error).__name__}: {error}".splitlines()[0][:200])}
    finally:
        signal.alarm(0)


def _stop(*_signal: object) -> None:
    raise TimeoutError(f"no end after {SECONDS} s")


def prepare() -> None:
    """Puts either library in place."""
    if importlib.util.find_spec("tensorpack") is None:
        import towerpack_compat

        towerpack_compat.install(report=False)
        return
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    # Tensorpack 0.11 uses names that NumPy has removed.
    vars(np).update(object=object, bool=bool, int=int, float=float)
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    sys.modules["tensorflow"] = tensorflow
    logging.getLogger("tensorflow").setLevel("ERROR")


if __name__ == "__main__":
    main()
