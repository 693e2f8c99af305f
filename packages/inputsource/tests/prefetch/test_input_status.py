import threading

import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import Buffer, FeedInput, InputStatus, QueueInput, ThreadActivity
from towerpack_inputsource.prefetch import Activity

N = tf.TensorSpec([], tf.int32, "n")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_every_second_is_accounted_once():
    clock = Clock()
    activity = Activity("t", clock)
    assert activity.read() == ("t", "ended", 0, 0, 0)
    activity.enter("flow")
    clock.now = 3
    assert activity.read() == ("t", "flow", 3, 3, 0)
    activity.enter("put")
    clock.now = 4
    assert activity.read() == ("t", "put", 1, 3, 1)
    activity.enter("flow")
    clock.now = 6
    activity.enter("ended")
    clock.now = 9
    assert activity.read() == ("t", "ended", 3, 5, 1)


def test_the_share_of_the_flow():
    assert ThreadActivity("t", "put", 0, 3, 1).flow_share == 0.75
    assert ThreadActivity("t", "ended", 0, 0, 0).flow_share == 0


def status(flow, put):
    return InputStatus("Source", (Buffer("queue", 3, 50),), (ThreadActivity("t", "flow", 0.5, flow, put),))


def test_the_time_since_an_earlier_status():
    assert status(7, 4).since(status(5, 1)) == status(2, 3)
    assert status(7, 4).since(InputStatus("Source")) == status(7, 4)
    assert status(2, 1).since(status(5, 1)) == status(2, 1), "the earlier one is of another session"


def test_as_text():
    assert str(status(1, 1)) == "Source: queue holds 3 of 50; t waits for the next datapoint for 0.5 s"
    assert str(InputStatus("Source", (Buffer("queue", None, None),))) == "Source: queue holds ? of any"
    assert str(InputStatus("FeedInput")) == "FeedInput: nothing is prefetched"


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_source_without_a_thread(graph):
    source = FeedInput([[1]])
    assert source.status() == InputStatus("FeedInput")


def test_a_queue_before_in_and_after_the_session(graph):
    """The thread is stopped in the flow, so its status is deterministic."""
    arrived, gate = threading.Event(), threading.Event()

    class Flow:
        def __iter__(self):
            yield from ([0], [1])
            arrived.set()
            assert gate.wait(20)

    source = QueueInput(Flow(), capacity=5, infinite=False)
    source.setup([N])
    [n] = source.get_input_tensors()
    assert source.status() == InputStatus("QueueInput")
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert arrived.wait(20)
        before = source.status()
        assert before.buffers == (Buffer("queue", 2, 5),)
        [thread] = before.threads
        assert thread.doing == "flow" and thread.name in {t.name for t in threading.enumerate()}
        session.run(n)
        after = source.status()
        assert after.buffers == (Buffer("queue", 1, 5),)
        [spent] = after.since(before).threads
        assert spent.seconds_in_flow > 0 and spent.seconds_in_put == 0
        gate.set()
    ended = source.status()
    assert ended.buffers == (Buffer("queue", None, 5),)
    assert ended.threads[0].doing == "ended"


def test_a_thread_that_waits_for_room_and_who_asks_from_another_one(graph):
    source = QueueInput([[0]], capacity=1)
    source.setup([N])
    seen = []

    def look():
        while not seen or seen[-1].threads[0].doing != "put" or seen[-1].buffers[0].fill != 1:
            seen.append(source.status())

    with tf.train.MonitoredTrainingSession(hooks=source.hooks()):
        watcher = threading.Thread(target=look)
        watcher.start()
        watcher.join(20)
        assert not watcher.is_alive()
    assert source.status().threads[0].seconds_in_put > 0
