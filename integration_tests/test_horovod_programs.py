"""Programs that were written for Tensorpack and Horovod, in two real processes of MPI."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from towerpack_compat.migrate import migrate_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

EXCHANGES = """
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
rank = hvd.rank()
assert (hvd.size(), hvd.local_size(), hvd.local_rank()) == (2, 2, rank)
x = tf.constant([1.0 + rank, 2.0])
rows = tf.constant(np.full([1 + rank, 2], rank, np.float32))
made = {
    'mean': hvd.allreduce(x),
    'sum': hvd.allreduce(tf.constant(3 + rank), average=False, name='total'),
    'rows': hvd.allgather(rows),
    'of 1': hvd.broadcast(x, 1),
}
weights = tf.constant([[1.0], [10.0], [100.0]]) * (1.0 + rank)
made['gradient of mean'] = tf.gradients(made['mean'] * (1.0 + rank), x)[0]
made['gradient of rows'] = tf.gradients(made['rows'] * weights, rows)[0]
made['gradient of 1'] = tf.gradients(made['of 1'] * (1.0 + rank), x)[0]
with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=32)) as sess:
    for name, value in sess.run(made).items():
        print('rank', rank, name, value.tolist(), flush=True)
"""

TRAINING = """
import sys
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from tensorpack import *


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, 'x')]

    def build_graph(self, x):
        w = tf.get_variable('w', initializer=1. + hvd.rank())
        return tf.reduce_mean(w * x, name='cost')

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.25)


class Tell(Callback):
    _chief_only = False

    def _trigger(self):
        print('rank', hvd.rank(), 'w', self.trainer.sess.run('w:0'), flush=True)


class OfTheChief(Callback):
    def _trigger(self):
        print('rank', hvd.rank(), 'is chief', flush=True)


hvd.init()
flow = RepeatedData(DataFromList([[np.float32([hvd.rank() + 1])]]), -1)
config = TrainConfig(
    model=Model(), dataflow=flow, callbacks=[Tell(), OfTheChief()], steps_per_epoch=1, max_epoch=1)
launch_train_with_config(config, HorovodTrainer(average=sys.argv[1] == 'mean'))
"""


@pytest.fixture
def two(tmp_path):
    """Runs a command of Python in two processes of MPI, and returns the lines that begin with a rank."""
    found = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    mpiexec = found or pytest.skip("there is no mpiexec")

    def run(*command):
        done = subprocess.run(
            [mpiexec, "-n", "2", sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return sorted(re.findall(r"^rank .*$", done.stdout, re.M))

    return run


def test_values_and_gradients_of_exchanges(tmp_path, two):
    (tmp_path / "exchanges.py").write_text(EXCHANGES)
    rows = [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    of_rows = ([[3.0, 3.0]], [[30.0, 30.0], [300.0, 300.0]])
    expected = [
        f"rank {rank} {name} {value}"
        for rank in (0, 1)
        for name, value in {
            "mean": [1.5, 2.0],
            "sum": 7,
            "rows": rows,
            "of 1": [2.0, 2.0],
            "gradient of mean": [1.5, 1.5],
            "gradient of rows": of_rows[rank],
            "gradient of 1": [3.0, 3.0] if rank == 1 else [0.0, 0.0],
        }.items()
    ]
    assert two("-m", "towerpack_compat", "run", "exchanges.py") == sorted(expected)


@pytest.mark.parametrize(("how", "w"), [("mean", 0.625), ("sum", 0.25)])
def test_processes_begin_with_the_chiefs_values_and_apply_one_gradient(tmp_path, two, how, w):
    (tmp_path / "train.py").write_text(TRAINING)
    printed = two("-m", "towerpack_compat", "run", "train.py", how)
    assert printed == ["rank 0 is chief", f"rank 0 w {w}", f"rank 1 w {w}"]


@pytest.mark.parametrize("way", ["as it is", "migrated"])
def test_a_network_trains_with_the_statistics_of_all_processes(migration, tmp_path, two, way):
    source = (migration / "horovod_training.py").read_bytes()
    script = tmp_path / "digits.py"
    script.write_bytes(source if way == "as it is" else migrate_source(source).after)
    two(*(["-m", "towerpack_compat", "run"] if way == "as it is" else []), str(script))
    assert sorted(path.name for path in (tmp_path / "train_log").iterdir()) == ["digits"]
    rows = json.loads((tmp_path / "train_log" / "digits" / "stats.json").read_text())
    assert [row["epoch_num"] for row in rows] == [1, 2]
    assert rows[-1]["global_step"] == 2 * (1797 // 2 // 32)
