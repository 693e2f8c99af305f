"""Common behaviour of experiment tracker monitors; integration_tests has real clients."""

import json
import sys
import types
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CallbackFactory, LoopState
from towerpack_callbacks.monitors import CometMonitor, MLflowMonitor, WandbMonitor
from towerpack_callbacks.monitors._trackers import Tracker


@pytest.mark.parametrize(
    ("monitor", "client", "extra"),
    [
        (WandbMonitor, "wandb", "wandb"),
        (MLflowMonitor, "mlflow", "mlflow"),
        (CometMonitor, "comet_ml", "comet"),
    ],
)
def test_a_missing_client_names_its_extra(monkeypatch, monitor, client, extra):
    monkeypatch.setitem(sys.modules, client, None)
    message = rf"{monitor.__name__} needs {client}, .* pip install 'towerpack-callbacks\[{extra}\]'"
    with pytest.raises(ImportError, match=message):
        monitor()


class Notebook(Tracker):
    """A tracker that records its calls."""

    def __init__(self, hparams=None):
        sys.modules["notebook_client"] = types.ModuleType("notebook_client")
        super().__init__("notebook_client", "notebook", hparams)
        self.told, self.histograms = [], []

    def _start(self, run_id):
        self.told.append(("start", run_id))
        return run_id or "run-1"

    def _log_row(self, row, global_step, epoch_num):
        self.told.append(("row", global_step, epoch_num, row))

    def _log_image(self, tag, encoded, global_step):
        self.told.append(("image", global_step, tag))

    def _log_histogram(self, tag, counts, edges, global_step):
        assert len(edges) == len(counts) + 1
        self.histograms.append((counts, edges))
        self.told.append(("histogram", global_step, tag, int(counts.sum())))

    def _end(self):
        self.told.append(("end",))


class Put(Callback):
    """Puts a scalar each step, and media before the epoch's scalar."""

    def _trigger_step(self):
        self.trainer.monitors.put_scalar("step", self.global_step)

    def _trigger_epoch(self):
        self.trainer.monitors.put_image("image", np.zeros((2, 3)))
        self.trainer.monitors.put_histogram("histogram", [1, 2, np.nan, np.inf])
        self.trainer.monitors.put_scalar("epoch", self.epoch_num)


def test_steps_come_in_their_order_and_rows_once(line):
    monitor = Notebook()
    line.run([Put()], monitors=[monitor], steps_per_epoch=2, max_epoch=1)
    assert monitor.told == [
        ("start", None),
        ("row", 1, 1, {"step": 1.0}),
        ("image", 2, "image"),
        ("histogram", 2, "histogram", 2),
        ("row", 2, 1, {"step": 2.0, "epoch": 1.0}),
        ("end",),
    ]


def test_a_resumed_run_keeps_its_identifier_and_row(line):
    first = Notebook()
    first.setup_graph(types.SimpleNamespace(graph=line.graph))
    first.load_state_dict({"run": "run-7", "row": {"epoch_num": 1, "global_step": 4, "a": 1.0}})
    state = json.loads(json.dumps(first.state_dict()))
    second = Notebook()
    second.setup_graph(types.SimpleNamespace(graph=line.graph, loop=LoopState(2, epoch_num=1)))
    second.load_state_dict(state)
    second._before_train()
    second.process_scalar("b", 2.0, 4)
    second.process_scalar("a", 3.0, 5)
    assert second.told == [("start", "run-7"), ("row", 4, 1, {"a": 1.0, "b": 2.0})]


def test_hyper_parameters_are_plain_values(line):
    assert Notebook({"rate": np.float64(0.1), "name": "x", "on": True})._hparams["rate"] == 0.1
    with pytest.raises(
        TypeError, match=r"Notebook\(hparams=\.\.\.\): 'size' is \[1, 2\] of type list; expected a"
    ):
        Notebook({"size": [1, 2]})
    with pytest.raises(TypeError, match=r"Notebook\(hparams=\['rate'\]\): expected a dict"):
        Notebook(["rate"])


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("conv0/W-rms", "conv0/W-rms"), ("größe: $x$", "größe_ _x_"), ("/../a", "__/a"), ("//", "_")],
)
def test_names_that_mlflow_allows(line, monkeypatch, name, allowed):
    put, logged = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar(name, 1.0)), []
    mlflow = Mock()
    mlflow.entities.Metric = lambda key, *rest: key
    mlflow.MlflowClient().log_batch = lambda run_id, metrics: logged.extend(metrics)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    line.run([put], monitors=[MLflowMonitor()], max_epoch=1)
    assert logged == [allowed, "epoch_num"]


def test_histograms_of_tensorflows_own_summaries(line):
    class PutSummary(Callback):
        def _setup_graph(self):
            self.histogram = tf.summary.histogram("a", [-1.0, 0.5, 2.0])

        def _trigger(self):
            self.trainer.monitors.put_summary(self.trainer.sess.run(self.histogram))

    monitor = Notebook()
    line.run([PutSummary()], monitors=[monitor], max_epoch=1)
    [(counts, edges)] = monitor.histograms
    assert counts.sum() == 3 and edges[0] == -1 and edges[-1] == 2
    assert (np.diff(edges) >= 0).all()


def test_a_histogram_counts_only_finite_values(line):
    values = np.concatenate([np.arange(100), [np.nan, np.inf]])
    monitor = Notebook()
    put = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_histogram("a", values))
    line.run([put], monitors=[monitor], max_epoch=1)
    [(counts, edges)] = monitor.histograms
    assert (counts.sum(), edges[0], edges[-1]) == (100, 0, 99)
    np.testing.assert_array_equal(np.histogram(np.arange(100), edges)[0], counts)
