"""The trainer of many processes, with threads of one process as the processes.

Groups, heartbeats and messages are the real ones; only the tensors go through memory instead of a network.
Real processes and real networks are in the integration tests.
"""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, StopTraining
from towerpack_callbacks.checkpoint import latest_checkpoint, read_checkpoint, snapshot_variables
from towerpack_dataflow import BatchData, DataFromList, ShardData, reshard
from towerpack_inputsource import QueueInput
from towerpack_layers import BatchNorm, Dropout, FullyConnected
from towerpack_trainers import (
    ModelDesc,
    Objective,
    SimpleTrainer,
    SingleDeviceBuilder,
    TowerTrainer,
    TrainConfig,
)
from towerpack_trainers.distributed import (
    Cluster,
    CollectiveCommunicator,
    Communicator,
    DistributedTrainer,
    PeerLostError,
    RanksDifferError,
    SynchronousProcesses,
    average_over_processes,
    broadcast_variables,
)
from towerpack_trainers.gan import GANModelDesc, GANTrainer, least_squares_costs

POINTS = 24
TOTAL = 6


class Meeting:
    """The exchange of arrays between the threads."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size)
        self.given = [None] * size

    def all_given(self, rank, value, closed):
        self.given[rank] = np.array(value)
        self._wait(closed)
        values = [np.array(given) for given in self.given]
        self._wait(closed)
        return values

    def _wait(self, closed):
        try:
            self.barrier.wait(90)
        except threading.BrokenBarrierError as error:
            raise ConnectionError("somebody did not come") from error


class InMemory(Communicator):
    """Exchanges through one process's memory."""

    def __init__(self, group, meeting):
        self.group, self.meeting = group, meeting

    def all_reduce(self, tensors):
        return self.repeat_all_reduce(tensors)

    def repeat_all_reduce(self, tensors):
        return self._in_turn(tensors, lambda values: (sum(values) / len(values)).astype(values[0].dtype))

    def broadcast(self, tensors):
        return self._in_turn(tensors, lambda values: values[0])

    def prepare(self, config):
        # TensorFlow's threads are the process's, and exchanges that wait for each other would use them up.
        config.use_per_session_threads = True
        config.inter_op_parallelism_threads = 4
        return config

    def close(self, failure=None):
        if failure:
            self.meeting.barrier.abort()
        super().close(failure)

    def _in_turn(self, tensors, combine):
        def exchange(value):
            return combine(self.meeting.all_given(self.rank, value, None))

        answers = []
        for tensor in tensors:
            with tf.control_dependencies(answers[-1:]):
                answer = tf.numpy_function(exchange, [tensor], tensor.dtype)
            answer.set_shape(tensor.shape)
            answers.append(answer)
        return answers


def free_addresses(size):
    """Addresses of this host that nothing listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    try:
        return [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def on_ranks(size, work, by_network=False):
    """Results or errors of `work(communicator)` on all ranks, each in a thread."""
    addresses = free_addresses(size)
    meeting = Meeting(size)

    def run(rank):
        network = CollectiveCommunicator(Cluster.of(addresses, rank), start_timeout=60, peer_timeout=60)
        with network.group as group:
            try:
                return work(network if by_network else InMemory(group, meeting))
            except Exception as error:
                return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


class Model(ModelDesc):
    """Two layers and momentum."""

    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        hidden = FullyConnected("fc0", x, 5, activation=tf.nn.tanh)
        return tf.reduce_mean(tf.square(FullyConnected("fc1", hidden, 1)[:, 0] - y), name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def points():
    xs = np.random.default_rng(1).normal(size=(POINTS, 3)).astype(np.float32)
    return DataFromList(list(zip(xs, xs.sum(1))), shuffle=True)


class Values(Callback):
    """All variables at the end, and the number of steps."""

    chief_only = False

    def _after_train(self):
        self.values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))
        self.steps = self.global_step


class At(Callback):
    """Does something after a step."""

    chief_only = False

    def __init__(self, step, act):
        self.step, self.act = step, act

    def _trigger_step(self):
        if self.global_step == self.step:
            self.act(self)


def stop(callback):
    raise StopTraining("it has seen enough")


def make_config(rank, size, *callbacks, **changes):
    values = Values()
    flow = BatchData(ShardData(points(), rank, size), TOTAL // size)
    given = {
        "model": Model(),
        "dataflow": flow,
        "callbacks": [*callbacks, values],
        "max_epoch": 3,
        "log_dir": None,
        "monitors": [],
        "extra_callbacks": [],
        "seed": 4,
        **changes,
    }
    return TrainConfig(**given), values


def train(communicator, *callbacks, **changes):
    """One rank's training; its `Values`."""
    config, values = make_config(communicator.rank, communicator.size, *callbacks, **changes)
    SimpleTrainer(config, processes=SynchronousProcesses(communicator)).train()
    return values


def undisturbed(**changes):
    """The same with one process, and nothing of the exchange."""
    config, values = make_config(0, 1, **changes)
    SimpleTrainer(config).train()
    return values


def assert_same(one, other, tolerance=0.0):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance, err_msg=name)


# ---- training in step


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_as_one_process_with_the_whole_batch(size):
    results = on_ranks(size, train)
    for other in results[1:]:
        assert_same(results[0].values, other.values)
    assert_same(results[0].values, undisturbed().values, 1e-5)
    assert results[0].steps == 3 * POINTS // TOTAL


def test_a_cluster_of_one_needs_no_server():
    config, values = make_config(0, 1)
    DistributedTrainer(config, Cluster.of(free_addresses(1), 0)).train()
    assert_same(values.values, undisturbed().values, 1e-6)


def test_start_values_come_from_the_chief():
    def work(communicator):
        # Different seeds would give different initial values.
        config, _ = make_config(communicator.rank, communicator.size, At(1, stop), seed=communicator.rank)
        values = config.callbacks._callbacks[-1]
        SimpleTrainer(config, processes=SynchronousProcesses(communicator)).train()
        return values

    one, other = on_ranks(2, work)
    assert_same(one.values, other.values)


class Rich(Model):
    """With batch normalisation and dropout."""

    def build_graph(self, x, y):
        hidden = BatchNorm("bn", FullyConnected("fc0", x, 5))
        hidden = Dropout("dropout", hidden, rate=0.5)
        return tf.reduce_mean(tf.square(FullyConnected("fc1", hidden, 1)[:, 0] - y), name="cost")


def test_processes_draw_different_masks():
    class Masks(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

        def build_graph(self, x, y):
            self.mask = Dropout("dropout", tf.ones([50]), rate=0.5)
            return tf.reduce_mean(tf.square(self.mask * tf.get_variable("w", [50]))) + 0 * tf.reduce_sum(y)

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.0)

    def work(communicator):
        model, seen = Masks(), []

        class Fetch(Callback):
            chief_only = False

            def _before_run(self, context):
                return model.mask

            def _after_run(self, context, values):
                seen.append(values.results)

        config, _ = make_config(communicator.rank, communicator.size, Fetch(), At(2, stop), model=model)
        SimpleTrainer(config, processes=SynchronousProcesses(communicator)).train()
        return seen

    one, other = on_ranks(2, work)
    assert not np.array_equal(one[0], other[0])
    assert not np.array_equal(one[0], one[1])


# ---- the chief and the others


def test_the_chief_alone_writes_and_runs_what_is_its_own(tmp_path):
    class Own(Callback):
        runs = 0

        def _trigger_epoch(self):
            self.runs += 1

    def work(communicator):
        own = Own()
        log_dir = tmp_path / f"rank{communicator.rank}"
        train(communicator, own, ModelSaver(), log_dir=log_dir, monitors=None)
        return own.runs, log_dir.exists()

    assert on_ranks(2, work) == [(3, True), (0, False)]
    assert read_checkpoint(latest_checkpoint(tmp_path / "rank0")).state["processes"] == 2


class Counting(Callback):
    """Has a state that every process needs."""

    chief_only = False

    def __init__(self):
        self.count = 0

    def _trigger_step(self):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


@pytest.mark.slow
@pytest.mark.parametrize("model", [Model, Rich])
def test_a_resumed_training_ends_as_the_undisturbed(tmp_path, model):
    def run(name, **changes):
        def work(communicator):
            counting = Counting()
            values = train(
                communicator,
                ModelSaver(),
                counting,
                model=model(),
                log_dir=tmp_path / name,
                resume="auto",
                **changes,
            )
            return values.values, counting.count

        return on_ranks(2, work)

    whole = run("whole")
    run("parts", max_epoch=1)
    resumed = run("parts")
    assert_same(whole[0][0], resumed[0][0])
    assert [count for _, count in resumed] == [12, 12]
    trained = [name for name in resumed[0][0] if "EMA" not in name]
    assert_same({n: resumed[0][0][n] for n in trained}, {n: resumed[1][0][n] for n in trained})


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(3, 2), (1, 2), (2, 1)])
def test_with_another_number_the_same_total_batch_goes_on(tmp_path, sizes):
    was, now = sizes
    on_ranks(was, lambda c: train(c, ModelSaver(), At(6, stop_after_saving), log_dir=tmp_path, resume="auto"))
    on_ranks(was, lambda c: train(c, ModelSaver(), log_dir=tmp_path, resume="auto", max_epoch=2))
    refused = on_ranks(now, lambda c: train(c, ModelSaver(), log_dir=tmp_path, resume="auto"))
    assert f"has {was} processes (now {now})" in str(refused[0])
    again = {"log_dir": tmp_path, "resume": "auto", "resume_allow": ["world"]}
    results = on_ranks(now, lambda c: train(c, ModelSaver(), **again))
    assert_same(results[0].values, undisturbed().values, 1e-5)


def stop_after_saving(callback):
    raise StopTraining("before the second epoch's end")


@pytest.mark.slow
def test_shards_of_batches_go_on_in_the_global_order(tmp_path):
    """Stopped inside an epoch with three processes, resumed with two: every batch once, in total order."""
    batches = [[np.full((1, 3), k, np.float32), np.zeros([1], np.float32)] for k in range(12)]
    flow = ShardData(DataFromList(batches, shuffle=True), 0, 1)
    flow.seed(4)
    whole = [int(x[0, 0]) for _ in range(3) for x, _ in flow]
    seen = {}

    class Look(Model):
        def build_graph(self, x, y):
            self.x = tf.identity(x)
            return super().build_graph(x, y)

    class Note(Callback):
        chief_only = False

        def __init__(self, model, key):
            self.model, self.key = model, key

        def _before_run(self, context):
            return self.model.x

        def _after_run(self, context, values):
            seen.setdefault(self.key, []).append(int(values.results[0, 0]))

    class SaveAt(Callback):
        chief_only = False

        def __init__(self, saver):
            self.saver = saver

        def _trigger_step(self):
            if self.global_step == 3:
                if self.saver:
                    self.saver.trigger()
                raise StopTraining("inside the first epoch")

    def run(communicator, part):
        rank, size = communicator.rank, communicator.size
        model, saver = Look(), ModelSaver()
        callbacks = [saver, Note(model, (part, rank))]
        if part == 0:
            callbacks.append(SaveAt(saver if rank == 0 else None))
        config, _ = make_config(
            rank,
            size,
            *callbacks,
            model=model,
            dataflow=ShardData(DataFromList(batches), rank, size),
            log_dir=tmp_path,
            resume="auto",
            max_epoch=2,
        )
        SimpleTrainer(config, processes=SynchronousProcesses(communicator, reshard)).train()

    assert on_ranks(3, lambda communicator: run(communicator, 0)) == [None] * 3
    on_ranks(2, lambda communicator: run(communicator, 1))
    threes = list(zip(*(seen[0, rank] for rank in range(3))))
    pairs = list(zip(*(seen[1, rank] for rank in range(2))))
    assert [set(step) for step in threes] == [set(whole[k : k + 3]) for k in range(0, 9, 3)]
    assert [set(step) for step in pairs] == [set(whole[k : k + 2]) for k in range(9, 25, 2)]


def test_an_unfit_position_is_refused(tmp_path):
    on_ranks(2, lambda c: train(c, ModelSaver(), log_dir=tmp_path, max_epoch=1))

    def work(communicator):
        flow = BatchData(ShardData(points(), communicator.rank, communicator.size), 1)
        return train(communicator, dataflow=flow, log_dir=tmp_path, resume="auto")

    errors = on_ranks(3, work)
    assert all(isinstance(error, Exception) for error in errors)
    assert "6 datapoints in a batch of all processes (now 3); and 2 processes" in str(errors[0])
    assert "resume_allow=['batch', 'world']" in str(errors[0])
    assert "rank 0" in str(errors[1])


# ---- stopping and failing together


@pytest.mark.parametrize("who", [0, 1])
def test_who_stops_stops_all_at_the_same_step(who):
    def work(communicator):
        extra = [At(5, stop)] if communicator.rank == who else []
        return train(communicator, *extra)

    results = on_ranks(2, work)
    assert [result.steps for result in results] == [5, 5]
    assert_same(results[0].values, results[1].values)
    assert results[0].values["global_step"] == 5


def test_all_stop_by_themselves_at_the_same_step():
    results = on_ranks(2, lambda communicator: train(communicator, At(5, stop)))
    assert [result.steps for result in results] == [5, 5]


def test_a_stop_after_the_very_last_step():
    def work(communicator):
        return train(communicator, *([At(12, stop)] if communicator.rank else []))

    assert [result.steps for result in on_ranks(2, work)] == [12, 12]


def test_the_end_of_one_input_ends_all():
    def work(communicator):
        rank, size = communicator.rank, communicator.size
        flow = BatchData(ShardData(points(), rank, size), TOTAL // size)
        return train(communicator, dataflow=None, data=QueueInput(flow, infinite=rank == 0), max_epoch=9)

    results = on_ranks(2, work)
    assert [result.steps for result in results] == [POINTS // TOTAL] * 2
    assert_same(results[0].values, results[1].values)


def test_a_failure_ends_all_and_is_named():
    def work(communicator):
        def fail(callback):
            raise KeyError("a mistake")

        return train(communicator, *([At(5, fail)] if communicator.rank == 1 else []))

    errors = on_ranks(3, work)
    assert isinstance(errors[1], KeyError)
    for error in (errors[0], errors[2]):
        assert isinstance(error, PeerLostError)
        assert error.rank == 1
        assert "KeyError: 'a mistake'" in str(error)


def test_a_failure_while_building_ends_all():
    class Broken(Model):
        def build_graph(self, x, y):
            raise RuntimeError("no such layer")

    def work(communicator):
        return train(communicator, model=Broken() if communicator.rank else Model())

    chief, other = on_ranks(2, work)
    assert isinstance(other, RuntimeError)
    assert isinstance(chief, PeerLostError)
    assert "RuntimeError: no such layer" in str(chief)


# ---- settings that must be equal in all processes


def test_models_that_differ_are_named():
    class Larger(Model):
        def build_graph(self, x, y):
            return super().build_graph(x, y) + tf.get_variable("more", [])

    errors = on_ranks(2, lambda c: train(c, model=Larger() if c.rank else Model()))
    for error in errors:
        assert isinstance(error, RanksDifferError)
        assert "rank 1" in str(error) and "more: [[], 'float32'] instead of None" in str(error)


def test_shards_of_different_lengths_are_named():
    def work(communicator):
        flow = ShardData(
            DataFromList([[np.zeros((1, 3), "f4"), np.zeros(1, "f4")]] * 7), communicator.rank, 2
        )
        return train(communicator, dataflow=flow)

    for error in on_ranks(2, work):
        assert isinstance(error, RanksDifferError)
        assert "the steps of an epoch: 3 instead of 4. Each step takes one from every process" in str(error)


def test_epochs_that_differ_are_named():
    for error in on_ranks(2, lambda c: train(c, max_epoch=3 + c.rank)):
        assert "in the last epoch: 4 instead of 3" in str(error)


# ---- custom trainers


class Twice(TowerTrainer):
    """Trains two costs in turn, as a GAN does: two runs and two exchanges in each step."""

    def _setup(self):
        super()._setup()
        exchange = self.processes.gradient_exchange
        self.builder = SingleDeviceBuilder(self.processes.local_seed(self.seed), exchange)
        self.builder.build(self.tower_func, self.source.get_input_tensors)

    def run_step(self):
        for update in self.builder.updates:
            self.hooked_sess.run(update)


class TwoCosts(Model):
    def build_graph(self, x, y):
        objectives = []
        for name in ("one", "two"):
            with tf.variable_scope(name):
                cost = super().build_graph(x, y)
            variables = tf.trainable_variables(f"{name}/")
            objectives.append(Objective(cost, variables, lambda: tf.train.MomentumOptimizer(0.1, 0.9)))
        return objectives


def train_twice(communicator, *callbacks):
    rank, size = communicator.rank, communicator.size
    config, values = make_config(rank, size, *callbacks, model=TwoCosts())
    Twice(config, processes=SynchronousProcesses(communicator)).train()
    return values


def test_two_costs_over_processes_as_in_one():
    one, other = on_ranks(2, train_twice)
    assert_same(one.values, other.values)
    config, alone = make_config(0, 1, model=TwoCosts())
    Twice(config).train()
    assert one.values["global_step"] == 2 * 3 * POINTS // TOTAL
    assert_same(one.values, alone.values, 1e-5)


@pytest.mark.parametrize("run", [6, 20])
def test_a_stop_between_steps_of_several_runs(run):
    def work(communicator):
        return train_twice(communicator, *([At(run, stop)] if communicator.rank else []))

    results = on_ranks(2, work)
    assert [result.steps for result in results] == [run, run]
    assert_same(results[0].values, results[1].values)


class TwoNetworks(GANModelDesc):
    """A line for each network, of which one depends on the other."""

    def inputs(self):
        return Model().inputs()

    def build_graph(self, x, y):
        with tf.variable_scope("gen"):
            fake = FullyConnected("fc", x, 3)
        with tf.variable_scope("discrim"):
            real_scores = FullyConnected("fc", x * y[:, tf.newaxis], 1, activation=tf.nn.tanh)
        with tf.variable_scope("discrim", reuse=True):
            fake_scores = FullyConnected("fc", fake, 1, activation=tf.nn.tanh)
        return least_squares_costs(real_scores, fake_scores)

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


@pytest.mark.parametrize("by_network", [False, True], ids=["in memory", "by network"])
@pytest.mark.parametrize(("d_steps", "g_steps"), [(1, 1), (2, 1), (1, 2)])
def test_rounds_of_two_networks_over_processes_as_in_one(d_steps, g_steps, by_network):
    def work(communicator):
        config, values = make_config(communicator.rank, communicator.size, model=TwoNetworks())
        processes = SynchronousProcesses(communicator)
        GANTrainer(config, d_steps, g_steps, processes=processes).train()
        return values

    one, other = on_ranks(2, work, by_network)
    assert_same(one.values, other.values)
    config, alone = make_config(0, 1, model=TwoNetworks())
    GANTrainer(config, d_steps, g_steps).train()
    assert one.steps == 3 * POINTS // TOTAL // d_steps
    assert_same(one.values, alone.values, 1e-5)


# ---- gradients


def test_gradients_of_all_kinds():
    def work(communicator):
        rank = float(communicator.rank)
        with tf.Graph().as_default(), tf.Session() as sess:
            rows = tf.get_variable("rows", [4, 2], initializer=tf.zeros_initializer())
            half = tf.get_variable("half", [3], tf.float16, initializer=tf.zeros_initializer())
            scalar = tf.get_variable("scalar", [], initializer=tf.zeros_initializer())
            sparse = tf.IndexedSlices(tf.ones([1, 2]) * (rank + 1), [communicator.rank], [4, 2])
            pairs = [(sparse, rows), (tf.ones([3], tf.float16) * rank, half), (tf.constant(rank * 4), scalar)]
            averaged = average_over_processes(pairs, communicator)
            return sess.run([gradient for gradient, _ in averaged.pairs])

    for rows, half, scalar in on_ranks(2, work):
        np.testing.assert_array_equal(rows, [[0.5, 0.5], [1, 1], [0, 0], [0, 0]])
        np.testing.assert_array_equal(half, np.full(3, 0.5, np.float16))
        assert (half.dtype, scalar) == (np.float16, 2.0)


def test_variables_of_all_types_are_sent():
    types = [tf.bool, tf.uint8, tf.int16, tf.int64, tf.float16, tf.bfloat16, tf.float64, tf.uint32]

    def work(communicator):
        with tf.Graph().as_default(), tf.Session() as sess:
            variables = [
                tf.get_variable(f"v{k}", [2], dtype, tf.zeros_initializer())
                if communicator.rank
                else tf.get_variable(f"v{k}", [2], dtype, tf.ones_initializer())
                for k, dtype in enumerate(types)
            ]
            op = broadcast_variables(variables, communicator)
            sess.run(tf.global_variables_initializer())
            sess.run(op)
            return [(value.dtype.name, value.tolist()) for value in sess.run(variables)]

    chief, other = on_ranks(2, work)
    assert chief == other
    assert all(values == [1, 1] for _, values in other)


def test_a_type_that_cannot_be_sent():
    with tf.Graph().as_default():
        text = tf.get_variable("text", initializer=tf.constant(["a"]))
        with pytest.raises(TypeError, match=r"'text.*' has dtype string, which processes cannot exchange"):
            broadcast_variables([text], None)
