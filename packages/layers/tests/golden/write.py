"""Writes the golden files of layers that are not there yet: `python write.py`.

What is there is never written again: it holds later versions to the names of variables, the meaning of their
values and the numbers of an earlier one. A layer that is new adds files here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from layer_outputs import compute, draw_values, path_of
from layer_table import CASES


def main() -> int:
    """Writes missing files; returns 1 if there was nothing to write."""
    missing = [case for case in CASES if case.reference is not None and not path_of(case).exists()]
    if not missing:
        print("all golden files are there, and none is ever written again", file=sys.stderr)
        return 1
    for case in missing:
        x, values = case.draw_input(), draw_values(case)
        outputs = compute(case, x, values)
        variables = {f"variables/{name}": value for name, value in values.items()}
        with path_of(case).open("xb") as file:  # "x": never over another
            np.savez_compressed(file, input=x, **variables, **outputs)
        print(case.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
