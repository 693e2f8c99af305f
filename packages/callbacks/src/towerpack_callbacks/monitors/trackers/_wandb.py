"""Sends statistics to Weights & Biases."""

from __future__ import annotations

import io
from typing import Any, final

import numpy as np

from .._hparams import HParams
from ._tracker import Tracker

__all__ = ["WandbMonitor"]

_MOST_BINS = 512  # limit of W&B


@final
class WandbMonitor(Tracker):
    """Sends scalars, images and histograms to Weights & Biases; needs the extra `[wandb]`.

    The client uses a separate process, so the step loop does not wait for the network. With `mode="offline"`
    it stores all data in the log directory, for `wandb sync`. W&B accepts each step once: it ignores steps
    that a resumed run sends again.

    Args:
        project: the project; None: W&B's default.
        hparams: the run's hyper-parameters, W&B's `config`.
        settings: other arguments of `wandb.init`: `mode`, `name`, `group`, `tags`, `entity`, …

    Raises:
        ImportError: wandb is not installed.
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(self, project: str | None = None, hparams: HParams | None = None, **settings: Any) -> None:
        super().__init__("wandb", "wandb", hparams)
        self._settings = {"project": project, "resume": "allow", **settings}
        self._run: Any = None

    def _start(self, run_id: str | None) -> str:
        directory = {} if self.log_dir is None else {"dir": str(self.log_dir)}
        given = {**directory, **self._settings, **({} if run_id is None else {"id": run_id})}
        self._run = self._client.init(config=self._hparams or None, **given)
        return str(self._run.id)

    def _log_row(self, row: dict[str, float], global_step: int, epoch_num: int) -> None:
        self._run.log({**row, "epoch_num": epoch_num}, step=global_step, commit=True)

    def _log_image(self, tag: str, encoded: bytes, global_step: int) -> None:
        from PIL import Image

        image = self._client.Image(Image.open(io.BytesIO(encoded)))
        # Not committed, because the step's scalars follow.
        self._run.log({tag: image}, step=global_step, commit=False)

    def _log_histogram(self, tag: str, counts: np.ndarray, edges: np.ndarray, global_step: int) -> None:
        together = -(-len(counts) // _MOST_BINS)
        starts = np.arange(0, len(counts), together)
        sums, limits = np.add.reduceat(counts, starts), np.append(edges[starts], edges[-1])
        histogram = self._client.Histogram(np_histogram=(sums.tolist(), limits.tolist()))
        self._run.log({tag: histogram}, step=global_step, commit=False)

    def _end(self) -> None:
        run, self._run = self._run, None
        run.finish()
