"""A run that ends normally leaves no put waiting, so TensorFlow prints no line about a cancelled op."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import tensorflow.compat.v1 as tf
from towerpack_inputsource import BatchQueueInput, QueueInput, StagingInput
from towerpack_inputsource.testing import ListFlow

N = tf.TensorSpec([], tf.int32, "n")
NS = tf.TensorSpec([None], tf.int32, "n")
flow = lambda: ListFlow([[k] for k in range(100)])
cases = [
    (QueueInput(flow(), capacity=2), N),
    (QueueInput(flow(), capacity=40), N),
    (BatchQueueInput(flow(), 3, capacity=8), NS),
    (StagingInput(QueueInput(flow(), capacity=4)), N),
]
for source, spec in cases:
    with tf.Graph().as_default():
        source.setup([spec])
        tensors = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            for _ in range(10):
                session.run(tensors)
            while min(buffer.fill or 0 for buffer in source.status().buffers) < 1:
                pass
with tf.Graph().as_default():
    evaluated = QueueInput(flow(), capacity=4, infinite=False)
    evaluated.setup([N])
    tensors = evaluated.get_input_tensors()
    with tf.train.MonitoredTrainingSession(hooks=evaluated.hooks()) as session:
        for _ in range(3):
            session.run(tensors)
            evaluated.reset_state()
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_normal_end_prints_nothing_of_tensorflow():
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert "CANCELLED" not in done.stderr
    assert "rendezvous" not in done.stderr


_UNENDED = """
import atexit, threading

def left():  # runs after the handlers that are registered later
    print([thread.name for thread in threading.enumerate() if thread.name.startswith("towerpack")])

atexit.register(left)
import tensorflow.compat.v1 as tf
from towerpack_inputsource import QueueInput, StagingInput
from towerpack_inputsource.testing import ListFlow

tf.disable_eager_execution()

def use():
    source = StagingInput(QueueInput(ListFlow([[k] for k in range(100)]), capacity=4))
    source.setup([tf.TensorSpec([], tf.int32, "n")])
    tensors = source.get_input_tensors()
    hooks, session, coord = source.hooks(), tf.Session(), tf.train.Coordinator()
    for hook in hooks:
        hook.begin()
    for hook in hooks:
        hook.after_create_session(session, coord)
    print(session.run(tensors)[0].item(), sum("towerpack" in thread.name for thread in threading.enumerate()))
    hooks.append(hooks)  # a cycle, which Python collects at its end

use()
"""


@pytest.mark.slow
def test_the_threads_of_a_session_that_nothing_ends_end_with_the_process():
    done = subprocess.run(
        [sys.executable, "-c", _UNENDED],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["0 4", "[]"]
