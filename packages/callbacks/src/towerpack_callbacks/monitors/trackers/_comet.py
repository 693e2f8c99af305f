"""Sends statistics to Comet."""

from __future__ import annotations

import io
from typing import Any, final

from .._hparams import HParams
from ._tracker import Tracker

__all__ = ["CometMonitor"]

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
