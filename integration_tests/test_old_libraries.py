"""Names that other libraries have removed are back for programs of Tensorpack."""

import subprocess
import sys

PROGRAM = """
import towerpack_compat
towerpack_compat.install(report=False)
from scipy import interpolate
x, y = [0, 1, 3], [4, 2]
z = [[a + 10 * b for a in x] for b in y]
f = interpolate.interp2d(x, y, z, fill_value=-1)
print(f([2, 0.5, 4], [3, 2.5, 1]).tolist(), f(0.5, 2), interpolate.interp2d(x, y, z)(4, 3))
try:
    interpolate.interp2d(x, y, z, bounds_error=True)(4, 3)
except ValueError as error:
    print(error)
import numpy as np
a, b = np.random.RandomState(0).rand(2, 10)
points = interpolate.interp2d(a, b, 2 * a + b)
print(points(0.5, 0.25).round(4))
"""


def test_the_interpolation_of_scipy():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[[-1.0, -1.0, -1.0], [25.5, 27.0, -1.0], [30.5, 32.0, -1.0]] [20.5] [33.]",
        "Values out of range; x must be in array([0, 1, 3]), y in array([4, 2])",
        "[1.25]",
    ]
