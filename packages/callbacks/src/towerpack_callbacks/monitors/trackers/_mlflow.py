"""Sends statistics to MLflow."""

from __future__ import annotations

import re
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, final

from ...writing import BackgroundWriter
from .._hparams import HParams
from ._tracker import Tracker

__all__ = ["MLflowMonitor"]

# One request takes at most 1000 values; a row must not be split.
_ENOUGH = 500
_NOT_IN_NAMES = re.compile(r"[^\w.\- /]")


@final
class MLflowMonitor(Tracker):
    """Sends scalars and images to MLflow; needs the extra `[mlflow]`.

    A thread makes requests of many values, at least after each epoch; errors of requests are raised in the
    loop. MLflow allows letters, digits, spaces and `_-./` in names; other characters become `_`. MLflow keeps
    all received values, so steps repeated by a resumed run occur twice, with equal values.

    Args:
        experiment_name: the experiment; it is created if it does not exist.
        hparams: the run's hyper-parameters, MLflow's params.
        tracking_uri: the server, or a store such as `sqlite:///mlflow.db`; None: MLflow's setting.
        run_name: name of the run; None: MLflow generates one.

    Raises:
        ImportError: mlflow is not installed.
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(
        self,
        experiment_name: str = "Default",
        hparams: HParams | None = None,
        tracking_uri: str | None = None,
        run_name: str | None = None,
    ) -> None:
        super().__init__("mlflow", "mlflow", hparams)
        self._experiment_name = experiment_name
        self._tracking_uri = tracking_uri
        self._run_name = run_name
        self._writer = BackgroundWriter("MLflowMonitor")
        self._metrics: list[Any] = []

    def _start(self, run_id: str | None) -> str:
        self._service = self._client.MlflowClient(tracking_uri=self._tracking_uri)
        if run_id is not None:
            self._service.update_run(run_id, status="RUNNING")
            return run_id
        experiment = self._service.get_experiment_by_name(self._experiment_name)
        if experiment is None:
            experiment_id = self._service.create_experiment(self._experiment_name)
        else:
            experiment_id = experiment.experiment_id
        run = self._service.create_run(experiment_id, run_name=self._run_name)
        for name, value in self._hparams.items():
            self._service.log_param(run.info.run_id, _allowed(name), value)
        return str(run.info.run_id)

    def _log_row(self, row: dict[str, float], global_step: int, epoch_num: int) -> None:
        now = int(time.time() * 1000)
        values = {**row, "epoch_num": float(epoch_num)}
        metric = self._client.entities.Metric
        self._metrics += [metric(_allowed(name), value, now, global_step) for name, value in values.items()]
        if len(self._metrics) >= _ENOUGH:
            self._submit()

    def _submit(self) -> None:
        metrics, self._metrics = self._metrics, []
        service, run_id = self._service, self._run_id
        for start in range(0, len(metrics), 1000):
            part = metrics[start : start + 1000]
            self._writer.submit(partial(service.log_batch, run_id, metrics=part))

    def _log_image(self, tag: str, encoded: bytes, global_step: int) -> None:
        service, run_id = self._service, self._run_id
        name = Path(f"{_allowed(tag)}/{global_step}.png")

        def send() -> None:
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory, name.name)
                file.write_bytes(encoded)
                service.log_artifact(run_id, str(file), f"images/{name.parent}")

        self._writer.submit(send)

    def flush(self) -> None:
        """Waits until the store or the server has received all data."""
        if self._started:
            self._submit()
            self._writer.flush()

    def _end(self) -> None:
        try:
            self._writer.close()
        finally:
            self._service.set_terminated(self._run_id)


def _allowed(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name).replace("..", "__").strip("/") or "_"
