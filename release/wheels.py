"""The five wheels, their paths, and their public modules."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PUBLIC_MODULES", "ROOT", "WHEELS", "package_of"]

ROOT = Path(__file__).resolve().parent.parent
# The first ones need none of the others.
WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")

# Beside the root of each wheel. What a page tells users to import stands here.
PUBLIC_MODULES = {
    "dataflow": (
        "augment",
        "datasets",
        "envs",
        "envs.simulators",
        "interop.arrays",
        "interop.collate",
        "interop.jax",
        "interop.torch",
        "interop.transforms",
        "remote",
        "replay",
        "storage",
        "testing",
        "viz",
    ),
    "inputsource": ("testing",),
    "layers": ("interop", "testing"),
    "callbacks": (
        "checkpoint",
        "hyperparam",
        "hyperparam.schedules",
        "metrics",
        "monitors",
        "nonfinite",
        "profile",
        "testing",
    ),
    "trainers": ("distributed", "gan", "optimize", "predict", "replicate", "rl", "testing"),
    "compat": (),
}


def package_of(wheel: str) -> str:
    """Returns the name that Python imports a wheel by."""
    return f"towerpack_{wheel}"
