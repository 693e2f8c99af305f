"""The session of a training."""

import os
import subprocess
import sys

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_trainers import (
    ConfigError,
    DictRestore,
    OfflinePredictor,
    PredictConfig,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    Trainer,
    TrainerStateError,
    cpu_session_config,
    default_session_config,
    gpu_session_config,
)
from towerpack_trainers.session import create_session
from towerpack_trainers.towers import _devices

ONEDNN = "TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE"


@pytest.mark.parametrize(
    ("devices", "cpus"),
    [
        ((), 0),
        (["/gpu:0", "/gpu:1"], 0),
        (["/cpu:0"], 1),
        (["/cpu:0", "/device:CPU:2"], 3),
        (["/job:localhost/replica:0/task:0/device:CPU:1"], 2),
    ],
    ids=str,
)
def test_cpu_devices_that_are_named_are_made(devices, cpus):
    assert default_session_config(devices).device_count["CPU"] == cpus


def test_defaults():
    config = default_session_config()
    assert config.allow_soft_placement
    assert config.gpu_options.allow_growth


@pytest.mark.parametrize(("cores", "threads"), [(None, 1), (1, 1), (4, 1), (5, 0), (64, 0)])
def test_small_machines_have_one_thread_inside_each_op(monkeypatch, cores, threads):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert default_session_config().intra_op_parallelism_threads == threads


def a_product(x):
    return tf.nn.relu(x @ tf.get_variable("w", [1, 2]))


def a_convolution(x):
    return tf.nn.conv1d(x[None], tf.get_variable("w", [1, 1, 2]), 1, "SAME")


@pytest.mark.parametrize("make", [a_product, a_convolution])
@pytest.mark.parametrize(("cores", "gpus"), [(4, 0), (4, 1), (5, 0)])
def test_ops_of_small_networks_are_kept_apart(configure, kit, monkeypatch, make, cores, gpus):
    class Net(kit.Line):
        def build_graph(self, x, y):
            return super().build_graph(x, y) + 0 * tf.reduce_sum(make(x[:, None]))

    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(_devices, "get_num_gpu", lambda: gpus)
    rewriting = SimpleTrainer(configure(model=Net()))._session_config().graph_options.rewrite_options
    assert (rewriting.remapping == rewriting.OFF) == (make is a_product and cores <= 4 and not gpus)


@pytest.mark.parametrize("make", [a_product, a_convolution])
@pytest.mark.parametrize(("cores", "gpus"), [(4, 0), (4, 1), (5, 0)])
def test_so_are_those_of_predictors_which_predict_the_same(monkeypatch, make, cores, gpus):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(_devices, "get_num_gpu", lambda: gpus)
    shape = [1, 2] if make is a_product else [1, 1, 2]
    config = PredictConfig(
        tower_func=lambda x: tf.identity(make(x), name="y"),
        input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")],
        session_init=DictRestore({"w": np.float32([0.3, -0.7]).reshape(shape)}),
        output_names=["y"],
    )
    x = np.linspace(-1, 1, 99, dtype=np.float32)[:, None]
    with OfflinePredictor(config) as predict:
        rewriting = predict.sess._config.graph_options.rewrite_options
        assert (rewriting.remapping == rewriting.OFF) == (make is a_product and cores <= 4 and not gpus)
        [y] = predict(x)
    own = default_session_config()
    with OfflinePredictor(attrs.evolve(config, session_config=own)) as predict:
        assert predict.sess._config == own == default_session_config()
        np.testing.assert_allclose(predict(x)[0], y, rtol=1e-6)


@pytest.mark.parametrize(("own", "then"), [(None, "false"), ("true", "true")])
def test_code_compiled_by_onednn_is_kept_by_default(monkeypatch, own, then):
    if own is None:
        monkeypatch.delenv(ONEDNN, raising=False)
    else:
        monkeypatch.setenv(ONEDNN, own)
    before = dict(os.environ)
    default_session_config()
    assert dict(os.environ) == before
    Trainer(log_dir=None)
    assert dict(os.environ) == {**before, ONEDNN: then}


@pytest.mark.slow
def test_a_training_changes_threads_and_one_variable_of_the_process_and_nothing_else():
    code = """if True:
        import logging, os, signal, sys, threading, warnings
        import tensorflow.compat.v1 as tf
        from towerpack_trainers import SimpleTrainer, Trainer

        def look():
            return {
                "directory": os.getcwd(), "handlers": [list(logging.root.handlers), logging.root.level],
                "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
                "eager": tf.executing_eagerly(), "resources": tf.resource_variables_enabled(),
                "filters": list(warnings.filters), "hooks": [sys.excepthook, threading.excepthook],
                "threads": threading.active_count(), "umask": os.umask(0o22) and 0, "path": list(sys.path),
                "inter": tf.config.threading.get_inter_op_parallelism_threads(),
                "placement": tf.config.get_soft_device_placement(), "graph": tf.get_default_graph().version,
            }

        before, environment = look(), dict(os.environ)
        trainer = Trainer(steps_per_epoch=3, max_epoch=1, log_dir=None, extra_callbacks=[], monitors=[])
        with tf.Graph().as_default():
            trainer.train_op = tf.no_op()
        trainer.train()
        assert look() == before, (look(), before)
        new = {name: value for name, value in os.environ.items() if environment.get(name) != value}
        assert new == {"TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE": "false"}, new
        assert tf.config.threading.get_intra_op_parallelism_threads() == (1 if os.cpu_count() <= 4 else 0)
        assert not [name for name in environment if name not in os.environ]
    """
    environment = {name: value for name, value in os.environ.items() if name != ONEDNN}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)


def test_a_session_for_cpus_only():
    config = cpu_session_config(["/cpu:1"], threads=3)
    assert dict(config.device_count) == {"CPU": 2, "GPU": 0}
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 3)
    unchanged = cpu_session_config()
    del unchanged.device_count["GPU"]
    assert unchanged == default_session_config()


def test_a_session_that_shares_gpus():
    assert gpu_session_config() == default_session_config()
    options = gpu_session_config(memory_growth=False, memory_fraction=0.25).gpu_options
    assert (options.allow_growth, options.per_process_gpu_memory_fraction) == (False, 0.25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cpu_session_config(threads=0), r"threads=0\): expected a whole number of at least 1"),
        (lambda: cpu_session_config(threads=1.5), r"threads=1.5\): expected a whole number"),
        (
            lambda: gpu_session_config(memory_fraction=0),
            r"memory_fraction=0\): expected a number above 0, at",
        ),
        (
            lambda: gpu_session_config(memory_fraction=1.5),
            r"memory_fraction=1.5\): expected a number above 0",
        ),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


class Look(Callback):
    """Counts the CPU devices of the session."""

    def _before_train(self):
        self.cpus = sum(device.device_type == "CPU" for device in self.trainer.sess.list_devices())


def test_the_users_session_config_is_used_unchanged(configure):
    look = Look()
    SyncMultiGPUTrainer(configure(callbacks=[look]), ["/cpu:0", "/cpu:1"]).train()
    assert look.cpus == 2
    given = tf.ConfigProto(device_count={"CPU": 3})
    SimpleTrainer(configure(callbacks=[look], session_config=given)).train()
    assert look.cpus == 3
    assert given == tf.ConfigProto(device_count={"CPU": 3})


EAGER_BEFORE, EAGER_WITHIN = "tf.constant(1)", "tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])"
TRAINED = """
import tensorflow.compat.v1 as tf
{before}
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        {within}
        return tf.reduce_mean(x * tf.get_variable("w", []))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)

config = TrainConfig(
    model=Model(),
    dataflow=[[[1.0]]] * 4,
    max_epoch=1,
    log_dir=None,
    session_config=tf.ConfigProto(intra_op_parallelism_threads=3),
)
SimpleTrainer(config).train()
tf.constant(1)
print("threads:", tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "within"), [pytest.param("", EAGER_WITHIN, marks=pytest.mark.long), (EAGER_BEFORE, "")]
)
def test_the_session_sets_the_number_of_threads_or_a_warning_explains(before, within):
    # One process each: TensorFlow makes its threads once.
    script = TRAINED.format(before=before, within=within)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    warned = "intra_op_parallelism_threads=3 may have no effect" in run.stderr
    assert run.stdout.endswith(f"threads: {0 if before else 3}\n")
    assert warned == bool(before)


def test_a_session_starts_with_everything_initialised_and_a_final_graph():
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", initializer=2.0)
        local = tf.get_variable("l", initializer=3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        total = variable + local
    with create_session(graph, tf.ConfigProto()) as sess:
        assert sess.run(total) == 5
        assert graph.finalized


def test_a_failed_initializer_raises_its_error():
    with tf.Graph().as_default() as graph:
        tf.get_variable("v", initializer=tf.placeholder(tf.float32, [], "unfed"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="unfed"):
        create_session(graph, tf.ConfigProto())


def test_the_session_exists_only_during_training(configure):
    trainer = SimpleTrainer(configure())
    message = "There is no session now: it exists from a callback's _before_train to its _after_train"
    with pytest.raises(TrainerStateError, match=message):
        _ = trainer.sess
    trainer.train()
    with pytest.raises(TrainerStateError, match=message):
        _ = trainer.sess
    with pytest.raises(TrainerStateError, match=r"hooked_sess is for run_step\(\)"):
        _ = trainer.hooked_sess
