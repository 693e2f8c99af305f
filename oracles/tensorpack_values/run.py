"""Compares towerpack-compat with Tensorpack 0.11, which it installs into an environment of its own.

`python run.py FOLDER [CHECKOUT]` computes all cases by both, and prints each difference and a table. With a
checkout of Tensorpack, its unit tests run by towerpack-compat as well, and the first steps of its examples by
both, beside the same TensorFlow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from uv import find_uv_bin

HERE = Path(__file__).parent
# The last TensorFlow whose Keras 2 it was written for, and NumPy 1; the OpenCV of today, for equal pictures.
PACKAGES = (
    "tensorflow-cpu==2.17.*",
    "tf_keras==2.17.*",
    "tf-slim",
    "ale-py",
    "gymnasium",
    "msgpack",
    "msgpack-numpy",
    "psutil",
    "pycocotools",
    "pyzmq",
    "six",
)
PACKAGES += (
    "tabulate",
    "termcolor",
    "tqdm",
    "scipy",
    "lmdb",
    "h5py",
    "scikit-learn",
    "matplotlib",
    "numpy<2",
)


def main(folder: Path, checkout: str | None) -> int:
    """Computes, compares, and returns the exit status."""
    theirs, ours = folder / "theirs", folder / "ours"
    opencv = f"opencv-python-headless=={version('opencv-python-headless')}"
    python = _environment(folder / "tensorpack", ["tensorpack==0.11", opencv])
    _compute(python, theirs)
    _compute(sys.executable, ours, "--other", str(theirs))
    _compute(python, theirs, "--other", str(ours), "--only", "exchanged")
    status = subprocess.run([sys.executable, HERE / "compare.py", theirs, ours]).returncode
    if checkout is not None:
        programs = HERE.parent / "tensorpack_programs"
        status |= subprocess.run([sys.executable, programs / "unit_tests.py", checkout]).returncode
        wheels = [each for each in (HERE.parents[1] / "packages").iterdir() if each.is_dir()]
        same = _environment(folder / "towerpack", [opencv], *wheels)
        command = [sys.executable, programs / "first_step.py", f"{checkout}/examples", python, "--ours", same]
        status |= subprocess.run([*command, "--folder", folder / "programs"]).returncode
    return status


def _environment(place: Path, alone: list[str], *more: Path) -> str:
    """Makes an environment of the packages above and more, and of those installed without dependencies."""
    uv, python = find_uv_bin(), str(place / "bin" / "python")
    if not place.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", python]
        subprocess.run([*install, *PACKAGES, *more], check=True)
        subprocess.run([*install, "--no-deps", *alone], check=True)
    return python


def _compute(python: str, folder: Path, *options: str) -> None:
    settings = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    settings["TF_ENABLE_ONEDNN_OPTS"] = "1"  # without it, TensorFlow 2.17 cannot dilate or split convolutions
    subprocess.run([python, HERE / "compute.py", folder, *options], check=True, env=settings)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else None))
