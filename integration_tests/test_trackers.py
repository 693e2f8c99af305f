"""Monitors against the real TensorBoard, and the real clients of W&B, MLflow and Comet, without network."""

import json
import os
import signal
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import comet_ml
import mlflow
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from wandb.proto.wandb_internal_pb2 import Record

from towerpack_callbacks import Callback, TFEventWriter, as_session_hooks
from towerpack_callbacks.checkpoint import (
    assign_variables,
    read_checkpoint,
    snapshot_variables,
    write_checkpoint,
)
from towerpack_callbacks.monitors import CometMonitor, MLflowMonitor, WandbMonitor

# Warnings of the trackers' code and its dependencies.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]


HPARAMS = {"learning rate": 0.1, "depth": 50, "optimizer": "Momentum", "warm-up": True}
IMAGE = np.arange(48).reshape(4, 4, 3)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Clients leave folders where they run, and try to report their own errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMET_INTERNAL_SENTRY_DSN", "")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


class Put(Callback):
    """Puts a number each step, and in each epoch a number with a strange name, an image and a histogram."""

    def _trigger_step(self):
        self.trainer.monitors.put_scalar("step/cost", 1 / self.global_step)

    def _trigger_epoch(self):
        monitors = self.trainer.monitors
        monitors.put_image("weights", IMAGE)
        monitors.put_scalar("größe: $x$", float("nan") if self.epoch_num == 1 else self.epoch_num)
        monitors.put_histogram("noise", np.arange(1000) % 7)


class Save(Callback):
    """Writes a checkpoint inside each epoch of three steps."""

    def _trigger_step(self):
        self._wanted = self.global_step % 3 == 2

    def _after_triggers(self):
        if self._wanted:
            values = snapshot_variables(self.trainer.sess, tf.global_variables())
            write_checkpoint(self.log_dir / f"model-{self.global_step}", values, self.trainer.state_dict())


class Die(Callback):
    """Kills the process, as a scheduler does that has no patience."""

    def _trigger_step(self):
        if self.global_step == 4:
            os.kill(os.getpid(), signal.SIGKILL)


class GoOn(Callback):
    """Performs the calls of a resuming trainer."""

    def _before_train(self):
        checkpoint = read_checkpoint(self.log_dir)
        assign_variables(self.trainer.sess, checkpoint.variables)
        loop = self.trainer.loop
        loop.load_state_dict(checkpoint.state["loop"])
        loop.local_step = loop.starting_step - 1
        self.trainer.callbacks.load_state_dict(checkpoint.state["callbacks"])


def train(log_dir, monitor, before=()):
    with tf.Graph().as_default():
        train_op = tf.assign_add(tf.get_variable("count", [], initializer=tf.zeros_initializer()), 1.0)
        callbacks = [*before, Put(), Save()]
        hooks = as_session_hooks(
            callbacks, steps_per_epoch=3, max_epoch=2, log_dir=log_dir, monitors=[monitor]
        )
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)


def tensorboard(log_dir):
    return TFEventWriter(hparams=HPARAMS)


def weights_and_biases(log_dir):
    return WandbMonitor("project", HPARAMS, mode="offline")


def mlflow_store(log_dir):
    return MLflowMonitor("experiment", HPARAMS, tracking_uri=f"sqlite:///{log_dir}/store.db")


def comet(log_dir):
    return CometMonitor("project", HPARAMS, online=False)


def interrupted(log_dir, make_monitor):
    """A run that is killed at step 4, and resumes from its checkpoint of step 2."""
    command = [sys.executable, __file__, make_monitor.__name__, str(log_dir)]
    assert subprocess.run(command, timeout=280, cwd=log_dir).returncode == -signal.SIGKILL
    train(log_dir, make_monitor(log_dir), before=[GoOn()])


# ---- TensorBoard


def load_events(directory):
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    return events.Reload()


def test_tensorboard_reads_scalars_images_histograms_and_the_graph(tmp_path):
    train(tmp_path, tensorboard(tmp_path))
    events = load_events(tmp_path)
    assert [event.step for event in events.Scalars("step/cost")] == [1, 2, 3, 4, 5, 6]
    assert events.Scalars("größe: $x$")[1].value == 2
    assert (events.Images("weights")[0].width, events.Images("weights")[0].height) == (4, 4)
    histogram = events.Histograms("noise")[0].histogram_value
    assert (histogram.num, histogram.min, histogram.max) == (1000, 0, 6)
    assert any(
        node.name == "count" for node in tf.GraphDef.FromString(events.Graph().SerializeToString()).node
    )


def test_tensorboard_reads_hyper_parameters(tmp_path):
    train(tmp_path, tensorboard(tmp_path))
    content = load_events(tmp_path).SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    info = metadata.parse_session_start_info_plugin_data(content)
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in info.hparams.items()}
    assert found == HPARAMS
    assert info.start_time_secs > 1.6e9


def test_tensorboard_shows_a_resumed_run_once(tmp_path):
    interrupted(tmp_path, tensorboard)
    assert [event.step for event in load_events(tmp_path).Scalars("step/cost")] == [1, 2, 3, 4, 5, 6]


# ---- Weights & Biases


def wandb_records(path):
    """Records of a `.wandb` file, which has the format of LevelDB's log after a header of seven bytes."""
    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield Record.FromString(parts)
            parts = b""


def wandb_rows(path):
    rows = {}
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "history":
            items = {(item.key or item.nested_key[0]): item.value_json for item in record.history.item}
            rows[record.history.step.num] = items
    return rows


def test_wandb_offline(tmp_path):
    interrupted(tmp_path, weights_and_biases)
    first, second = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert first.name == second.name  # the same run: it has the same identifier
    # The row of step 2 was not over at the checkpoint, so it is in it. What the client keeps in its own
    # memory, until it has 32 kB of it, dies with the process.
    rows = wandb_rows(second)
    assert sorted(rows) == [2, 3, 4, 5, 6]
    assert json.loads(rows[6]["step/cost"]) == 1 / 6 and json.loads(rows[6]["größe: $x$"]) == 2
    assert {"weights", "noise", "epoch_num"} <= set(rows[6])
    [run] = [record.run for record in wandb_records(second) if record.WhichOneof("record_type") == "run"]
    config = {update.key: json.loads(update.value_json) for update in run.config.update}
    assert HPARAMS.items() <= config.items()
    assert list(tmp_path.glob("wandb/offline-run-*/files/media/images/*.png"))


# ---- MLflow


def test_mlflow_in_a_local_store(tmp_path):
    interrupted(tmp_path, mlflow_store)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/store.db")
    [run] = client.search_runs([client.get_experiment_by_name("experiment").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params == {name: str(value) for name, value in HPARAMS.items()}
    history = client.get_metric_history(run.info.run_id, "step/cost")
    assert {(metric.step, metric.value) for metric in history} == {(step, 1 / step) for step in range(1, 7)}
    strange = client.get_metric_history(run.info.run_id, "größe_ _x_")
    assert strange[-1].value == 2
    assert any(np.isnan(metric.value) for metric in strange)
    images = [file.path for file in client.list_artifacts(run.info.run_id, "images/weights")]
    assert sorted(images) == ["images/weights/3.png", "images/weights/6.png"]


def test_an_error_of_mlflow_is_raised_in_the_loop(tmp_path):
    class Refuse(Callback):
        """Deletes the run, as somebody else might."""

        def _trigger_step(self):
            if self.global_step == 2:
                client = mlflow.MlflowClient(tracking_uri=uri)
                client.delete_run(monitor._run_id)

    uri = f"sqlite:///{tmp_path}/store.db"
    monitor = MLflowMonitor(tracking_uri=uri)
    with pytest.raises(mlflow.MlflowException, match="must be in the 'active' state"):
        train(tmp_path / "log", monitor, before=[Refuse()])


# ---- Comet


def comet_messages(path):
    with zipfile.ZipFile(path) as archive:
        return [json.loads(line) for line in archive.read("messages.json").decode().splitlines() if line]


def test_comet_offline(tmp_path):
    interrupted(tmp_path, comet)
    archives = sorted(tmp_path.glob("*.zip"), key=lambda path: path.stat().st_mtime)
    run = read_checkpoint(tmp_path).state["callbacks"]["CometMonitor"]["run"]
    assert all(archive.name.startswith(run) for archive in archives)
    messages = comet_messages(archives[-1])
    metrics = [m["payload"]["metric"] for m in messages if m["type"] == "metric_msg"]
    cost = {(m["step"], m["metricValue"]) for m in metrics if m["metricName"] == "step/cost"}
    assert cost == {(step, 1 / step) for step in range(2, 7)}
    assert [m["metricValue"] for m in metrics if m["metricName"] == "größe: $x$"] == ["NaN", 2.0]
    names = {m["payload"]["param"]["paramName"] for m in messages if m["type"] == "parameter_msg"}
    assert set(HPARAMS) <= names


def test_nothing_of_a_client_is_left_running():
    assert wandb.run is None
    running = comet_ml.get_running_experiment()  # the client goes on to name one that has ended
    assert running is None or running.ended


if __name__ == "__main__":  # the run that is killed
    train(Path(sys.argv[2]), globals()[sys.argv[1]](sys.argv[2]), before=[Die()])
