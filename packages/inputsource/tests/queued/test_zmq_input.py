"""A queue filled by senders in other processes or threads."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import ArgumentError, RemoteError
from towerpack_dataflow.remote import DataFlowSender
from towerpack_inputsource import ZMQInput

pytestmark = pytest.mark.timeout(180)
SPECS = [tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]


def batches(count=6, size=4):
    return [
        [np.full((size, 2), number, np.float32), np.full(size, number, np.int32)] for number in range(count)
    ]


def run_until_closed(sender):
    with pytest.raises(RemoteError, match="was closed"):
        sender.run()


def run(source, takes):
    """The second component of each take, and the state after all of them."""
    with tf.Graph().as_default():
        source.setup(SPECS)
        x, y = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            found = []
            for _ in range(takes):
                values = session.run([x, y])
                assert (values[0] == values[1][:, None]).all()
                found.append(int(values[1][0]))
            state = source.state_dict()
            if not source.infinite:
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(x)
    return x.shape.as_list(), found, state


def test_a_session_takes_the_sent_datapoints():
    with DataFlowSender(batches(), "tcp://127.0.0.1:*") as sender:
        thread = threading.Thread(target=sender.run, args=(1,))
        thread.start()
        shape, found, state = run(ZMQInput(sender.address, batch_size=4, infinite=False), takes=6)
        thread.join()
    assert (shape, found, state) == ([4, 2], list(range(6)), {"live": {}})


def test_it_continues_with_the_next_pass():
    with DataFlowSender(batches(3), "tcp://127.0.0.1:*") as sender:
        thread = threading.Thread(target=run_until_closed, args=(sender,))
        thread.start()
        shape, found, _ = run(ZMQInput(sender.address, capacity=2), takes=8)
        sender.close()
        thread.join()
    assert shape == [None, 2]
    assert found == [0, 1, 2, 0, 1, 2, 0, 1]


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="addrs is an address such as"):
        ZMQInput("localhost")
    with pytest.raises(ValueError, match="capacity"):
        ZMQInput("tcp://localhost:5", capacity=0)
