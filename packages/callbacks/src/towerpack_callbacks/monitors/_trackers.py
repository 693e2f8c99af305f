"""Sends statistics to experiment trackers: Comet, MLflow, and Weights & Biases."""

from __future__ import annotations

import abc
import importlib
import io
import re
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..writing._line_file import BackgroundWriter
from ._file_monitors import HParams, check_hparams
from ._monitors import Monitor, Row, StepRow, histograms_of, images_of

__all__ = ["CometMonitor", "MLflowMonitor", "Tracker", "WandbMonitor"]


_COUNTERS = ("epoch_num", "global_step")


class Tracker(Monitor):
    """Collects the statistics of a step in one message, and continues the same run after a restart.

    The checkpoint contains the run's identifier. The resumed run repeats the steps after the checkpoint, and
    sends their statistics again even if the killed run has already sent them.

    Args:
        client: name of the client module and of the extra that installs it.
        hparams: hyper-parameters of the run.

    Raises:
        ImportError: the client is not installed.
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(self, client: str, extra: str, hparams: HParams | None) -> None:
        who = type(self).__name__
        try:
            self._client: Any = importlib.import_module(client)
        except ImportError as error:
            raise ImportError(
                f"{who} needs {client}, which is not installed: pip install 'towerpack-callbacks[{extra}]'."
            ) from error
        self._hparams = check_hparams(who, hparams)
        self._row = StepRow()
        self._run_id: str | None = None
        self._started = False

    # ---- overridden by subclasses

    @abc.abstractmethod
    def _start(self, run_id: str | None) -> str:
        """Starts a run, or continues the run with the given identifier; returns the identifier."""

    @abc.abstractmethod
    def _log_row(self, row: dict[str, float], global_step: int, epoch_num: int) -> None:
        """Sends the statistics of one step."""

    @abc.abstractmethod
    def _log_image(self, tag: str, encoded: bytes, global_step: int) -> None:
        """Sends a PNG."""

    def _log_histogram(self, tag: str, counts: np.ndarray, edges: np.ndarray, global_step: int) -> None:
        """Sends a histogram of n counts and n + 1 edges."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Ends the run after all data are sent or stored."""

    # ---- called by the loop

    def _setup_graph(self) -> None:
        self._row, self._run_id, self._started = StepRow(), None, False

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> None:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if not self._started:
            self._run_id, self._started = self._start(self._run_id), True

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        self._send(self._row.add(name, value, self.epoch_num, global_step, self.env_steps))

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        self._open()
        # Services expect steps in order.
        self._send(self._row.take_before(global_step))
        for tag, encoded in images_of(summary):
            self._log_image(tag, encoded, global_step)
        for tag, counts, edges in histograms_of(summary):
            self._log_histogram(tag, counts, edges, global_step)

    def _send(self, row: Row | None) -> None:
        if row is not None:
            values = {name: value for name, value in row.items() if name not in _COUNTERS}
            self._log_row(values, int(row["global_step"]), int(row["epoch_num"]))

    def _trigger(self) -> None:
        self._send(self._row.take())
        self.flush()

    def _after_train(self) -> None:
        if self._started:
            try:
                self._trigger()
            finally:
                self._started = False
                self._end()

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return {"run": self._run_id, **self._row.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._run_id = state["run"]
        self._row.load_state_dict(state)


# Only statistics are recorded, not the data that the client collects from TensorFlow, the console or Git.
_QUIET = {
    "auto_histogram_epoch_rate": 0,
    "auto_log_co2": False,
    "auto_metric_logging": False,
    "auto_output_logging": False,
    "auto_param_logging": False,
    "display_summary_level": 0,
    "log_code": False,
    "log_git_metadata": False,
    "log_git_patch": False,
    "log_graph": False,
    "parse_args": False,
}


@final
class CometMonitor(Tracker):
    """Sends scalars and images to Comet; needs the extra `[comet]`.

    The client uses a separate thread, so the step loop does not wait for the network. With `online=False` it
    writes an archive to the log directory when the training ends, for `comet upload`. A resumed run continues
    the same experiment; offline, it writes a new archive.

    Args:
        project_name: the project; None: Comet's default.
        hparams: the run's hyper-parameters.
        online: False: works without network and API key.
        config: other arguments of `comet_ml.ExperimentConfig`: `name`, `tags`, `log_code`, …

    Raises:
        ImportError: comet_ml is not installed.
        TypeError: a hyper-parameter is not a string, number or truth value.

    Example:
        ```python
        monitors = [JSONWriter(), CometMonitor("my-project", hparams={"rate": 0.1}, online=False)]
        ```
    """

    def __init__(
        self,
        project_name: str | None = None,
        hparams: HParams | None = None,
        online: bool = True,
        **config: Any,
    ) -> None:
        super().__init__("comet_ml", "comet", hparams)
        self._project_name = project_name
        self._online = online
        self._config = {**_QUIET, **config}
        self._experiment: Any = None

    def _start(self, run_id: str | None) -> str:
        config = dict(self._config)
        if not self._online and self.log_dir is not None:
            config.setdefault("offline_directory", str(self.log_dir))
        self._experiment = self._client.start(
            project_name=self._project_name,
            online=self._online,
            experiment_key=run_id,
            mode="create" if run_id is None else "get_or_create",
            experiment_config=self._client.ExperimentConfig(**config),
        )
        if self._hparams:
            self._experiment.log_parameters(self._hparams)
        return str(self._experiment.get_key())

    def _log_row(self, row: dict[str, float], global_step: int, epoch_num: int) -> None:
        self._experiment.log_metrics(row, step=global_step, epoch=epoch_num)

    def _log_image(self, tag: str, encoded: bytes, global_step: int) -> None:
        self._experiment.log_image(io.BytesIO(encoded), name=tag, step=global_step)

    def flush(self) -> None:
        """Waits until the client has sent all data or given up."""
        if self._experiment is not None and self._online:
            self._experiment.flush()

    def _end(self) -> None:
        experiment, self._experiment = self._experiment, None
        experiment.end()


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

    Example:
        ```python
        monitors = [JSONWriter(), MLflowMonitor("digits", tracking_uri="sqlite:///mlflow.db")]
        ```
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

    Example:
        ```python
        monitors = [JSONWriter(), WandbMonitor("my-project", hparams={"rate": 0.1}, mode="offline")]
        ```
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
