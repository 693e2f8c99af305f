"""The pure cores, each with the tests that hold it, and the mutants of it that behave as the original."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

__all__ = ["CORES", "ROOT", "Core"]

ROOT = Path(__file__).resolve().parent.parent


class Core(NamedTuple):
    """A module whose mutants are made.

    Attributes:
        name: what it is about.
        wheel: the wheel's short name.
        module: the file, below the wheel's package.
        tests: the files of tests, below the wheel's tests.
    """

    name: str
    wheel: str
    module: str
    tests: tuple[str, ...]

    @property
    def equivalent(self) -> dict[str, str]:
        """For each line of a mutant that behaves as the original, the reason."""
        listed = tomllib.loads((ROOT / "mutants" / "equivalent.toml").read_text(encoding="utf-8"))
        reasons: dict[str, str] = listed.get(self.name, {})
        return reasons

    @property
    def below_sources(self) -> Path:
        """The file, below `src`."""
        return Path(f"towerpack_{self.wheel}") / self.module

    @property
    def path(self) -> Path:
        """The file in the repository."""
        return ROOT / "packages" / self.wheel / "src" / self.below_sources


CORES = (
    Core(
        "permutation",
        "dataflow",
        "sources/_permutation.py",
        ("sources/test_permutation.py",),
    ),
    Core(
        "seeding",
        "dataflow",
        "flow/_epoch.py",
        ("flow/test_epoch.py", "flow/test_flow.py", "flow/test_flow_state.py", "flow/test_rewind.py"),
    ),
    Core(
        "periods",
        "callbacks",
        "callback/_every.py",
        ("callback/test_every.py", "callback/test_due_schedule.py", "callback/test_env_steps.py"),
    ),
    Core("schedules", "callbacks", "hyperparam/schedules.py", ("hyperparam/test_schedules.py",)),
    Core(
        "plans",
        "dataflow",
        "batch/planners/_plan.py",
        ("batch/planners/test_plan.py", "batch/planners/test_planned_batches.py"),
    ),
    Core(
        "mixtures",
        "dataflow",
        "batch/planners/_mixture.py",
        ("batch/planners/test_mixture.py", "batch/planners/test_mix_and_skip.py"),
    ),
    Core("step-plans", "callbacks", "loop/_step_plan.py", ("loop/test_step_runner.py",)),
)
