"""A training stopped by a signal finishes its step, saves, and can be resumed exactly."""

import os
import random
import signal
import threading

import numpy as np
import pytest

from towerpack_callbacks import Callback, CheckpointWriteError, InferenceRunner, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import all_checkpoints, latest_checkpoint, read_checkpoint
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.session import StopSignals

ENDS = [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)]


@pytest.fixture(autouse=True)
def as_in_a_shell():
    """Installs Python's own handlers, regardless of the shell that started the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    for number, handler in before.items():
        signal.signal(number, handler)


class Send(Callback):
    """Sends a signal to this process from a method, at a step."""

    def __init__(self, method, step, number=signal.SIGTERM):
        def send(*_):
            if self.global_step == step:
                os.kill(os.getpid(), number)

        setattr(self, method, send)
        self.method = method

    def overrides(self, method):
        return method == self.method or super().overrides(method)


@pytest.mark.parametrize(("number", "kind", "code"), ENDS)
def test_in_the_middle_of_an_epoch(configure, tmp_path, number, kind, code):
    with pytest.raises(kind) as caught:
        SimpleTrainer(configure(callbacks=[Send("_trigger_step", 3, number), ModelSaver()])).train()
    assert getattr(caught.value, "code", None) == code
    assert [path.name for path in all_checkpoints(tmp_path / "run")] == ["model-3"]
    state = read_checkpoint(tmp_path / "run").state["loop"]
    assert state == {"epoch_num": 1, "local_step": 2, "global_step": 3, "steps_per_epoch": 5}


@pytest.mark.parametrize("method", ["_before_epoch", "_trigger_step", "_after_epoch", "_trigger_epoch"])
def test_a_finished_epoch_has_its_triggers(kit, configure, tmp_path, method):
    step = 5
    trained = [Send(method, step), ModelSaver(), kit.Recorder()]
    with pytest.raises(SystemExit):
        SimpleTrainer(configure(callbacks=trained, max_epoch=3)).train()
    done = 6 if method == "_before_epoch" else 5
    assert read_checkpoint(tmp_path / "run").state["loop"]["global_step"] == done
    assert ("trigger_epoch", 1, 4, 5) in trained[2].calls
    assert trained[2].calls[-1][0] == "after_train"


@pytest.mark.parametrize("method", ["_setup_graph", "_before_train"])
def test_before_the_first_step_nothing_is_saved(configure, tmp_path, method):
    def train():
        SimpleTrainer(configure(callbacks=[Send(method, 0), ModelSaver()])).train()

    with pytest.raises(SystemExit):
        train()
    assert latest_checkpoint(tmp_path / "run") is None


def test_after_the_last_step_it_ends_by_the_signal(configure, tmp_path):
    with pytest.raises(SystemExit):
        SimpleTrainer(configure(callbacks=[Send("_after_train", 10), ModelSaver()])).train()
    assert read_checkpoint(tmp_path / "run").variables["global_step"] == 10


def test_without_a_saver_it_logs_a_warning(configure, caplog):
    with pytest.raises(SystemExit):
        SimpleTrainer(configure(callbacks=[Send("_trigger_step", 3)])).train()
    assert "Nothing is saved: there is no towerpack_callbacks.ModelSaver among the callbacks." in caplog.text


def test_in_an_evaluation(kit, configure, tmp_path):
    class Slow:
        """Sends the signal while the flow is read."""

        def __iter__(self):
            yield from kit.line_data(2)
            if not (tmp_path / "sent").exists():
                (tmp_path / "sent").touch()
                os.kill(os.getpid(), signal.SIGTERM)
            yield from kit.line_data(2)

    runner = InferenceRunner(Slow(), ScalarStats("cost"))
    with pytest.raises(SystemExit):
        SimpleTrainer(configure(callbacks=[runner, ModelSaver()])).train()
    checkpoint = read_checkpoint(tmp_path / "run")
    assert checkpoint.variables["global_step"] == 5


def test_while_saving(configure, tmp_path, monkeypatch):
    real, sent = os.fsync, []

    def fsync(descriptor):
        if not sent:
            sent.append(os.listdir(tmp_path / "run"))
            os.kill(os.getpid(), signal.SIGTERM)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SystemExit):
        SimpleTrainer(configure(callbacks=[ModelSaver()], max_epoch=9999)).train()
    assert "model-5" not in sent[0]
    for path in all_checkpoints(tmp_path / "run"):
        read_checkpoint(path)
    assert (tmp_path / "run" / "model-5").exists()


def refuse(descriptor):
    raise OSError("disk full")


def test_an_error_of_saving_is_raised(configure, monkeypatch):
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CheckpointWriteError, match="disk full"):
        SimpleTrainer(configure(callbacks=[Send("_trigger_step", 3), ModelSaver()])).train()


def test_a_write_error_of_a_thread_stops_the_next_step(configure, monkeypatch, caplog):
    steps = []

    class Count(Callback):
        def _trigger_step(self):
            steps.append(self.global_step)
            if self.global_step > 5:
                assert self.trainer.coord.wait_for_stop(60)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CheckpointWriteError, match="disk full"):
        SimpleTrainer(configure(callbacks=[ModelSaver(), Count()], max_epoch=9999)).train()
    assert steps[-1] <= 6
    assert "failed in after_train" not in caplog.text


class Stuck:
    """A flow that blocks after some datapoints, until the test is over."""

    def __init__(self, datapoints):
        self.datapoints = datapoints
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __iter__(self):
        yield from self.datapoints
        self.reached.set()
        self.go_on.wait()


@pytest.mark.parametrize(("number", "kind", "code"), ENDS)
def test_a_blocked_flow(kit, configure, tmp_path, monkeypatch, number, kind, code):
    """The main thread is then inside TensorFlow, where no Python handler runs."""
    monkeypatch.setattr(StopSignals.__init__, "__defaults__", (0.3, 0.5, 0.5))
    flow = Stuck(kit.line_data(7))

    def send():
        assert flow.reached.wait(60)
        while latest_checkpoint(tmp_path / "run") is None:
            threading.Event().wait(0.01)
        threading.Timer(0.5, flow.go_on.set).start()
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(kind) as caught:
        SimpleTrainer(configure(dataflow=flow, callbacks=[ModelSaver()], steps_per_epoch=5)).train()
    sender.join()
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert getattr(caught.value, "code", None) == code
    assert read_checkpoint(tmp_path / "run").variables["global_step"] == 5


def test_the_resumed_run_is_exact(kit, configure, tmp_path):
    class Draw(Callback):
        """Draws from the global generators at each step."""

        def _trigger_step(self):
            self.trainer.monitors.put_scalar("drawn", random.random() + np.random.random())

    def train(log_dir, stops, **changes):
        random.seed(3)
        np.random.seed(3)
        weights = kit.Weights()
        flow = kit.net_flow()
        flow.seed(1)
        stop = [] if stops is None else [Send("_trigger_step", stops)]
        trainer = SimpleTrainer(
            configure(
                model=kit.Random(),
                dataflow=flow,
                callbacks=[Draw(), *stop, ModelSaver(), weights],
                log_dir=tmp_path / log_dir,
                max_epoch=3,
                **changes,
            )
        )
        if stops is None:
            trainer.train()
        else:
            with pytest.raises(SystemExit):
                trainer.train()
        return weights.values, trainer.monitors.get_history("drawn")

    values, drawn = train("undisturbed", None)
    train("stopped", 2)
    train("stopped", 9, resume="auto")
    again, drawn_again = train("stopped", None, resume="auto")
    for name, value in values.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name, strict=True)
    assert drawn_again[-1] == drawn[-1]
