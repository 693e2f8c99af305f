"""Requests of many threads become batches; answers and errors reach their callers."""

import concurrent.futures
import contextlib
import os
import signal
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_trainers import (
    ConfigError,
    MultiThreadAsyncPredictor,
    OfflinePredictor,
    PredictConfig,
    PredictorInputError,
    SimpleTrainer,
    TrainerStateError,
)
from towerpack_trainers.predict._requests import RequestQueue

SPECS = [tf.TensorSpec([None, 2], tf.float32, "x")]


class Gate:
    """A tower function that stops at a closed gate, records sizes of batches, and fails at minus ones."""

    def __init__(self, closed=False):
        self.reached, self.opened, self.sizes = threading.Event(), threading.Event(), []
        if not closed:
            self.opened.set()

    def __call__(self, x):
        y = tf.numpy_function(self.pass_through, [x], tf.float32)
        tf.identity(y, name="y")
        tf.reduce_sum(x, axis=list(range(1, x.shape.rank or 2)), name="sum")
        tf.reduce_mean(x, name="mean")
        tf.range(3, name="three")

    def pass_through(self, x):
        self.sizes.append(len(x))
        self.reached.set()
        self.opened.wait()
        if (x < 0).any():
            raise ValueError("minus one")
        return 2 * x


@contextlib.contextmanager
def served(gate, specs=SPECS, output_names=("y", "sum"), **options):
    config = PredictConfig(tower_func=gate, input_signature=specs, output_names=list(output_names))
    with OfflinePredictor(config) as offline, MultiThreadAsyncPredictor(offline, **options) as predict:
        try:
            yield predict
        finally:
            gate.opened.set()  # otherwise closing waits for ever


def example(number):
    return np.full(2, number, np.float32)


def test_each_client_gets_its_own_answers():
    gate = Gate()
    with served(gate, batch_size=8) as predict, concurrent.futures.ThreadPoolExecutor(16) as clients:

        def ask(client):
            numbers = [100 * client + k for k in range(30)]
            return [(number, *predict(example(number))) for number in numbers]

        answers = [answer for found in clients.map(ask, range(16)) for answer in found]
    for number, y, total in answers:
        np.testing.assert_array_equal(y, 2 * example(number))
        assert total == 2 * number
    assert len(answers) == sum(gate.sizes) == 480 and max(gate.sizes) <= 8


def test_waiting_requests_become_a_batch():
    gate = Gate(closed=True)
    with served(gate, batch_size=4) as predict:
        futures = [predict.put_task([example(0)])]
        gate.reached.wait()
        futures += [predict.put_task({"x": example(k)}) for k in range(1, 7)]
        gate.opened.set()
        assert [future.result()[1] for future in futures] == [2 * k for k in range(7)]
    assert gate.sizes == [1, 4, 2]


def test_an_error_reaches_only_the_callers_of_its_batch():
    gate = Gate(closed=True)
    with served(gate, batch_size=2) as predict:
        first = predict.put_task([example(0)])
        gate.reached.wait()
        bad, beside, after = [predict.put_task([example(k)]) for k in (-1, 1, 2)]
        gate.opened.set()
        for future in (bad, beside):
            with pytest.raises(tf.errors.OpError, match="minus one"):
                future.result()
        assert bad.exception() is not beside.exception()
        assert [first.result()[1], after.result()[1]] == [0, 4]
        with pytest.raises(tf.errors.OpError, match="minus one"):
            predict(example(-1))
        assert predict(example(3))[1] == 6


def test_closing_answers_waiting_requests():
    gate = Gate(closed=True)
    with served(gate, batch_size=2) as predict:
        futures = [predict.put_task([example(k)]) for k in range(5)]
        gate.opened.set()
    assert [future.result(0)[1] for future in futures] == [0, 2, 4, 6, 8]
    with pytest.raises(TrainerStateError, match="MultiThreadAsyncPredictor is closed"):
        predict(example(0))
    predict.close()


def test_the_queue_is_bounded():
    gate = Gate(closed=True)
    with served(gate, batch_size=2, queue_size=2) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        for k in (1, 2):
            predict.put_task([example(k)])
        blocked = threading.Thread(target=predict, args=(example(3),))
        blocked.start()
        # It would be in the queue now if there were room.
        assert len(predict._requests._requests) == 2
        gate.opened.set()
        blocked.join()
    assert sum(gate.sizes) == 4


def test_closing_refuses_callers_that_wait_for_room():
    gate, refused = Gate(closed=True), []
    with served(gate, queue_size=1) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        predict.put_task([example(1)])

        def ask():
            with pytest.raises(TrainerStateError, match="is closed"):
                predict.put_task([example(2)])
            refused.append(True)

        late = threading.Thread(target=ask)
        late.start()
        predict._requests.close()
        late.join()
        gate.opened.set()
    assert refused


def test_a_task_can_be_cancelled_while_it_waits():
    gate, done = Gate(closed=True), []
    with served(gate) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        futures = [predict.put_task([example(k)], done.append) for k in (1, 2)]
        assert futures[0].cancel()
        gate.opened.set()
        assert futures[1].result()[1] == 4
    assert gate.sizes == [1, 1] and done == futures


def test_a_thread_that_waits_for_a_cancelled_task_continues():
    gate, caught = Gate(closed=True), []

    def wait(future):
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()
        caught.append(future)

    with served(gate) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        future = predict.put_task([example(1)])
        waiting = [threading.Thread(target=wait, args=(future,)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        assert future.cancel()
        for thread in waiting:
            thread.join()
        gate.opened.set()
    assert caught == [future, future]


def test_a_callback_may_read_the_result():
    gate, found = Gate(), []
    with served(gate) as predict:
        predict.put_task([example(1)], lambda future: found.append(future.result()[1]))
        bad = predict.put_task([example(-1)])
        assert isinstance(bad.exception(), tf.errors.OpError)
        assert concurrent.futures.wait([bad]).done == {bad}
        with pytest.raises(TimeoutError):
            gate.opened.clear()
            predict.put_task([example(2)]).result(timeout=0.01)
        gate.opened.set()
    assert found == [2]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, ValueError])
def test_an_error_in_a_callback_ends_nothing(error, caplog):
    def fail(future):
        raise error("of a callback")

    found = []
    with served(Gate()) as predict:
        first = predict.put_task([example(1)], fail)
        first.add_done_callback(lambda future: found.append(future.result()[1]))
        assert first.result()[1] == 2
        assert predict(example(2))[1] == 4
    assert "of a callback" in caplog.text
    assert found == [2]


@pytest.mark.timeout(180)
def test_a_callback_may_exceed_the_capacity():
    gate, done = Gate(closed=True), threading.Semaphore(0)

    def ask(future):
        for _ in range(5):
            predict.put_task([example(7)], lambda each: done.release())

    with served(gate, queue_size=1) as predict:
        predict.put_task([example(1)], ask)
        gate.reached.wait()
        predict.put_task([example(2)])
        gate.opened.set()
        for _ in range(5):
            done.acquire()


@pytest.mark.timeout(180)
def test_a_callback_may_call_the_predictor():
    found = []
    with served(Gate(), queue_size=1) as predict:
        for _ in range(3):
            predict.put_task([example(1)], lambda future: found.append(predict(example(3))[1]))
    assert found == [6, 6, 6]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("wait", ["result", "exception"])
def test_a_callback_that_waits_for_another_prediction_gets_an_error(wait):
    gate, errors = Gate(closed=True), []

    def ask(future):
        try:
            getattr(later, wait)()
        except TrainerStateError as error:
            errors.append(str(error))

    with served(gate, batch_size=1) as predict:
        predict.put_task([example(1)], ask)
        later = predict.put_task([example(2)])
        gate.opened.set()
        assert later.result()[1] == 4
    assert "would wait for ever" in errors[0]


@pytest.mark.timeout(180)
def test_callbacks_of_two_threads_may_close_the_predictor():
    gate = Gate(closed=True)
    config = PredictConfig(tower_func=gate, input_signature=SPECS, output_names=["sum"])
    with OfflinePredictor(config) as offline, MultiThreadAsyncPredictor([offline] * 2, 1) as predict:
        both = threading.Barrier(2)

        def close(future):
            both.wait()
            predict.close()

        futures = [predict.put_task([example(k)], close) for k in range(2)]
        gate.opened.set()
        assert [future.result()[0] for future in futures] == [0, 2]


@pytest.mark.timeout(180)
def test_a_future_with_a_result_set_by_its_owner_ends_nothing():
    gate = Gate(closed=True)
    with served(gate, batch_size=1) as predict:
        running = predict.put_task([example(1)])
        gate.reached.wait()
        waiting = predict.put_task([example(2)])
        for future in (running, waiting):
            future.set_result("own")
        gate.opened.set()
        assert predict(example(3))[1] == 6
        assert running.result() == waiting.result() == "own"


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_requests_do_not_wait_for_a_thread_that_has_ended(monkeypatch):
    gate = Gate(closed=True)
    with served(gate, batch_size=1) as predict:
        first = predict.put_task([example(1)])
        gate.reached.wait()
        waiting = [predict.put_task([example(2)]) for _ in range(2)]
        ends = iter([MemoryError("no room")])

        def take(queue, most):
            for error in ends:
                raise error
            return taken(queue, most)

        taken = RequestQueue.take
        monkeypatch.setattr(RequestQueue, "take", take)
        gate.opened.set()
        assert first.result()[1] == 2
        for future in waiting:
            with pytest.raises(MemoryError, match="no room"):
                future.result()
        with pytest.raises(TrainerStateError, match="closed"):
            predict(example(3))


@pytest.fixture
def ctrl_c():
    """Raises `KeyboardInterrupt` at Ctrl-C; a process that runs tests for another one may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_one_client_leaves_the_others_alone():
    gate, answers = Gate(closed=True), []
    with served(gate) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        clients = [
            threading.Thread(target=lambda k=k: answers.append(predict(example(k))[1])) for k in range(1, 7)
        ]
        for client in clients[:3]:
            client.start()
        interrupt = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            interrupt.start()
            predict(example(9))
        for client in clients[3:]:
            client.start()
        gate.opened.set()
        for client in [*clients, interrupt]:
            client.join()
    assert sorted(answers) == [2, 4, 6, 8, 10, 12]


def test_examples_of_unequal_shapes():
    gate = Gate(closed=True)
    with served(gate, [tf.TensorSpec([None, None], tf.float32, "x")]) as predict:
        predict.put_task([example(0)])
        gate.reached.wait()
        futures = [predict.put_task([np.ones(size, np.float32)]) for size in (2, 3, 2, 3)]
        gate.opened.set()
        assert [future.result()[1] for future in futures] == [2, 3, 2, 3]
    assert gate.sizes == [1, 2, 2]


def test_several_predictors_share_the_requests():
    gate = Gate()
    config = PredictConfig(tower_func=gate, input_signature=SPECS, output_names=["sum"])
    with OfflinePredictor(config) as offline, MultiThreadAsyncPredictor([offline] * 3) as predict:
        futures = [predict.put_task([example(k)]) for k in range(50)]
        assert [future.result()[0] for future in futures] == [2 * k for k in range(50)]


def test_in_a_training(kit, configure):
    class Ask(Callback):
        def _setup_graph(self):
            self.predict = MultiThreadAsyncPredictor(self.trainer.get_predictor(["x"], ["mul"]))

        def _trigger(self):
            self.answer = self.predict(np.float32(1))[0]

        def _after_train(self):
            self.predict.close()

    ask = Ask()
    SimpleTrainer(configure(callbacks=[ask], max_epoch=20)).train()
    assert ask.answer == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], r"takes 1 arrays \(x\), received 0"),
        (
            [np.zeros((1, 2), np.float32)],
            r"An example of the predictor's input 'x' has shape \(2,\); received",
        ),
        ([["a", "b"]], "Input 'x' is of type float32; received str"),
    ],
    ids=["count", "shape", "type"],
)
def test_wrong_examples(arrays, message):
    with served(Gate()) as predict, pytest.raises(PredictorInputError, match=message):
        predict(*arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_names": ["mean"]}, "the output 'mean' is one number for a whole batch"),
        ({"specs": [tf.TensorSpec([4, 2], tf.float32, "x")]}, r"input 'x' has shape \(4, 2\).*axis to None"),
        ({"batch_size": 0}, r"batch_size=0\): expected a whole number of at least 1"),
        ({"queue_size": 0}, r"queue_size=0\): expected a whole number of at least 1"),
    ],
    ids=["scalar", "fixed batch", "batch_size", "queue_size"],
)
def test_wrong_arguments(changes, message):
    with pytest.raises(ConfigError, match=message), served(Gate(), **changes):
        pass


def test_an_output_of_another_length_is_refused():
    message = r"output 'three' has shape \(3,\) for 1 examples"
    with served(Gate(), output_names=["three"]) as predict, pytest.raises(ConfigError, match=message):
        predict(example(0))


def test_objects_that_are_not_predictors():
    with pytest.raises(ConfigError, match="expected an OfflinePredictor, a predictor of a trainer"):
        MultiThreadAsyncPredictor([lambda x: x])
    config = PredictConfig(tower_func=Gate(), input_signature=SPECS, output_names=["y"], return_input=True)
    with OfflinePredictor(config) as offline, pytest.raises(ConfigError, match="returns no inputs"):
        MultiThreadAsyncPredictor(offline)
