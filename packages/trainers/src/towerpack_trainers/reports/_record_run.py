"""Writes the description and the environment of a run into its directory."""

from __future__ import annotations

from pathlib import Path

from towerpack_callbacks.writing import ENVIRONMENT, EXPLANATION, atomic_write

from ._environment import collect_env_info

__all__ = ["record_run"]


def record_run(log_dir: Path, explanation: str) -> None:
    """Writes `explain.txt` and `environment.txt` for this start of the run.

    A report of the run shows them. They are replaced when the run is resumed, perhaps on another machine or
    with other callbacks.

    Args:
        log_dir: the run's directory.
        explanation: the return value of `Trainer.explain()`.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     record_run(Path(folder), "SimpleTrainer on ...")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['environment.txt', 'explain.txt']
    """
    for name, text in ((EXPLANATION, explanation), (ENVIRONMENT, collect_env_info())):
        _write(log_dir / name, text)


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as aside:
        aside.write_text(f"{text}\n", encoding="utf-8")
