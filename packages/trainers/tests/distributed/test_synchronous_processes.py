"""Synchronous processes, seen from one of them: a stand-in for the others answers at once."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, CheckpointError, LoopState, StopTraining
from towerpack_callbacks.checkpoint import write_checkpoint
from towerpack_dataflow import BatchData, DataFromList, MapData, ShardData
from towerpack_inputsource import FeedInput
from towerpack_layers import BatchNorm, TowerError
from towerpack_trainers import ConfigError, ModelDesc, SimpleTrainer, SingleCostTrainer, SingleDeviceBuilder
from towerpack_trainers.distributed import (
    Communicator,
    PeerLostError,
    RanksDifferError,
    SynchronousProcesses,
)
from towerpack_trainers.replicate import SyncMultiGPUParameterServerBuilder
from towerpack_trainers.restore import FreshStart, RunState, find_starting_point


class Group:
    """The other processes: their values, and whether one of them is lost."""

    def __init__(self, rank=0, size=2, shared=None, others=(), lost=None):
        self.rank, self.size, self.is_chief = rank, size, rank == 0
        self.names = [f"rank {number}" for number in range(size)]
        self.shared, self.others, self.lost, self.calls = shared, others, lost, []

    def share(self, value=None):
        self.calls.append(("share", value))
        return value if self.is_chief else self.shared

    def gather(self, value):
        return [value, *(other(value) for other in self.others)]

    def barrier(self):
        self.calls.append("barrier")

    def check(self):
        if self.lost is not None:
            raise self.lost

    def wait_for_lost_peer(self):
        self.calls.append("waited")

    @contextlib.contextmanager
    def interruptible(self, step, cancel):
        self.calls.append(("step", step))
        yield

    def announce_stop(self, reason):
        self.calls.append(("announce_stop", reason))

    def reason_of_stop(self):
        return "rank 1: enough"

    def close(self, failure=None):
        self.calls.append(("close", failure))


class Alone(Communicator):
    """Exchanges with no other process."""

    def __init__(self, group):
        self.group, self.sums = group, []

    def all_reduce(self, tensors):
        self.sums.append(list(tensors))
        return [tf.identity(tensor) for tensor in tensors]

    def repeat_all_reduce(self, tensors):
        return [tf.identity(tensor) for tensor in tensors]

    def broadcast(self, tensors):
        return [tf.identity(tensor) for tensor in tensors]


def processes(*arguments, **options):
    return SynchronousProcesses(Alone(Group(*arguments, **options)))


def lost():
    return PeerLostError("rank 1 is lost", 1)


# ---- building


def test_the_chief_chooses_the_seed():
    assert processes().agree_on_seed(lambda: 5) == 5
    assert processes(1, shared=7).agree_on_seed(lambda: pytest.fail("not asked")) == 7


def test_each_process_draws_its_own_random_numbers():
    seeds = [processes(rank, 3).local_seed(5) for rank in range(3)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 3
    assert seeds == [processes(rank, 3).local_seed(5) for rank in range(3)]
    assert all(0 <= seed < 2**31 for seed in seeds)


# ---- data


def order(configure, flow, rank=0, size=2, **changes):
    """The numbers that one process trains on in two epochs, in order."""
    strategy = processes(rank, size, shared=1, others=[lambda fingerprints: fingerprints] * (size - 1))
    strategy.restore = lambda start, sess, run: start.restore(sess, run, lambda state: state)
    taken = []
    note = MapData(flow, lambda datapoint: (taken.append(float(datapoint[0])), datapoint)[1])
    data = FeedInput(BatchData(note, 1))
    SimpleTrainer(configure(data=data, log_dir=None, **changes), processes=strategy).train()
    return taken


def numbers():
    return DataFromList([(np.float32(n), np.float32(n)) for n in range(8)], shuffle=True)


def test_undivided_data_have_a_different_order_in_each_process(configure, caplog):
    first, second = (order(configure, numbers(), rank) for rank in range(2))
    assert sorted(first) == sorted(second) == sorted([*range(8), *range(8)])
    assert first != second
    assert [first, second] == [order(configure, numbers(), rank) for rank in range(2)]
    assert (
        caplog.text.count("The data are not divided: each of the 2 processes reads its whole flow") == 2
    )  # each chief


def test_shards_are_cut_from_one_order(configure, caplog):
    shares = [order(configure, ShardData(numbers(), rank, 2), rank, max_epoch=1) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == [*range(8)]
    assert "not divided" not in caplog.text


def test_the_data_of_one_process_have_the_seed_of_the_training(configure, caplog):
    flow = BatchData(MapData(numbers(), lambda datapoint: datapoint), 1)
    flow.seed(1)
    assert order(configure, numbers(), 0, 1, max_epoch=1) == [batch[0][0] for batch in flow]
    assert "not divided" not in caplog.text


class OfItsOwn:
    """Accepts a seed, and does not declare whether it is divided."""

    def __init__(self):
        self.given = None

    def seed(self, seed):
        self.given = seed

    def __iter__(self):
        yield from [(np.ones(1, np.float32), np.ones(1, np.float32))] * 8


def test_unknown_data_have_the_common_seed(configure):
    flow = OfItsOwn()
    SimpleTrainer(configure(dataflow=flow, steps_per_epoch=1), processes=processes(1, shared=1))
    assert flow.given == 1


def test_updates_without_averaging_are_refused(configure):
    strategy = processes()

    class Apart(SingleCostTrainer):
        def _build_train_op(self):
            tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
            return self.config.make_optimizer().minimize(tower.output)

    with pytest.raises(ConfigError, match=r"has not averaged any gradient .*exchange=processes.gradient_"):
        Apart(configure(), processes=strategy).train()
    assert strategy.communicator.group.calls[-1][0] == "close"


class Synchronised(ModelDesc):
    """Requests the statistics of all batches of a step."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        shift = tf.get_variable("shift", [], initializer=tf.ones_initializer())
        normal = BatchNorm("bn", tf.square(x + shift)[:, None], sync_statistics=True)
        return tf.reduce_mean(tf.square(tf.get_variable("slope", []) * normal[:, 0] - y))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def twice(batches):
    """Each batch combined with the equal batch of another process."""
    return [[np.concatenate([column, column]) for column in batch] for batch in batches]


def test_statistics_are_those_of_all_processes(kit, configure):
    """With another process that has equal batches, the result is that of one process with doubled batches."""
    together, alone = kit.Weights(), kit.Weights()
    strategy = processes(others=[lambda fingerprints: fingerprints])
    SimpleTrainer(configure(model=Synchronised(), callbacks=[together]), processes=strategy).train()
    flow = twice(kit.line_data())
    SimpleTrainer(configure(model=Synchronised(), dataflow=flow, log_dir=None, callbacks=[alone])).train()
    summed = ["float32 [2]", "float32 [1]", "float32 [1]", "float32 [2]"]
    assert list(strategy.gradient_exchange.summed().values()) == summed
    for name, value in alone.values.items():
        np.testing.assert_allclose(together.values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_statistics_of_a_trainer_without_a_builder(configure):
    class Own(SingleCostTrainer):
        def _build_train_op(self):
            tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
            optimizer = self.config.make_optimizer()
            pairs = self.processes.gradient_exchange(optimizer.compute_gradients(tower.output))
            return optimizer.apply_gradients(pairs)

    strategy = processes(others=[lambda fingerprints: fingerprints])
    Own(configure(model=Synchronised()), processes=strategy).train()
    assert len(strategy.gradient_exchange.summed()) == 4


def test_processes_with_different_sums_are_refused(configure):
    def other(fingerprints):
        return {**fingerprints, "the sums that layers take over all processes": {"number 0": "float32 [2]"}}

    message = r"in the sums that layers take over all processes: number 1: None instead of float32 \[1\]"
    with pytest.raises(RanksDifferError, match=message):
        SimpleTrainer(configure(model=Synchronised()), processes=processes(others=[other])).train()


class Hidden(SingleCostTrainer):
    """Exchanges its gradients, without passing the exchange to its builder."""

    def _make_builder(self):
        return SingleDeviceBuilder(exchange=lambda pairs: self.processes.gradient_exchange(pairs))


class OfTowers(SyncMultiGPUParameterServerBuilder):
    """Exchanges its gradients without a builder."""

    def __init__(self, devices, exchange_with):
        super().__init__(devices)
        self.exchange_with = exchange_with

    def _combine(self, gradients):
        return [self.exchange_with(pairs) for pairs in super()._combine(gradients)]


def test_statistics_without_an_exchange_are_refused(configure):
    """The statistics would differ between processes, and the weights would differ from the requested ones."""
    strategy = processes()
    with pytest.raises(
        ConfigError,
        match=r"sync_statistics=True of BatchNorm\('bn'\): each of the 2 processes would normalise",
    ):
        Hidden(configure(model=Synchronised()), processes=strategy)
    assert strategy.communicator.group.calls[-1][0] == "close"
    SimpleTrainer(configure(model=Synchronised()), processes=processes(0, 1)).train()


def test_towers_connected_only_within_one_process_are_refused():
    def cost():
        normal = BatchNorm("bn", tf.ones([4, 1]), sync_statistics=True)
        return tf.reduce_mean(normal * tf.get_variable("slope", []))

    optimizer, exchange = tf.train.GradientDescentOptimizer(0.1), processes().gradient_exchange
    devices = ["/cpu:0", "/cpu:1"]
    with (
        tf.Graph().as_default(),
        pytest.raises(ConfigError, match=r"True of the layer in 'bn': each of the 2"),
    ):
        OfTowers(devices, exchange).build(cost, tuple, optimizer)
    unknown = SyncMultiGPUParameterServerBuilder(devices, exchange=lambda pairs: exchange(pairs))
    with tf.Graph().as_default(), pytest.raises(TowerError, match="the 2 towers are not connected"):
        unknown.build(cost, tuple, optimizer)
    alone = processes(0, 1).gradient_exchange
    with tf.Graph().as_default():
        SyncMultiGPUParameterServerBuilder(devices, exchange=alone).build(cost, tuple, optimizer)


def test_one_process_and_many_equal_ones_train_the_same_model(kit, configure):
    alone, together = kit.Weights(), kit.Weights()
    SimpleTrainer(configure(callbacks=[alone])).train()
    strategy = processes(others=[lambda fingerprints: fingerprints])
    trainer = SimpleTrainer(configure(callbacks=[together]), processes=strategy)
    trainer.train()
    kit.assert_same(alone.values, together.values)
    assert trainer.state_dict()["processes"] == 2
    group = strategy.communicator.group
    steps = [call[1] for call in group.calls if call[0] == "step"]
    assert steps == [0, *range(10)]  # the first is the broadcast
    assert group.calls[-2:] == ["barrier", ("close", None)]


# ---- agreement


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"the last epoch": 9},
            "rank 1 differs from rank 0 in the last epoch: 9 instead of 2. All processes need",
        ),
        ({"the steps of an epoch": 4}, "in the steps of an epoch: 4 instead of 5. Each step takes one from"),
        ({"the variables": {}}, r"in the variables: .*slope: None instead of \[\[\], 'float32'\]"),
    ],
    ids=str,
)
def test_the_first_difference_is_named(configure, changed, message):
    strategy = processes(others=[lambda fingerprints: {**fingerprints, **changed}])
    with pytest.raises(RanksDifferError, match=message) as caught:
        SimpleTrainer(configure(), processes=strategy).train()
    calls = strategy.communicator.group.calls
    assert calls[-2] == "barrier"
    assert calls[-1] == ("close", f"RanksDifferError: {' '.join(str(caught.value).split())[:300]}")


def test_variables_in_another_order(configure):
    def other(fingerprints):
        return {**fingerprints, "the variables": dict(reversed(fingerprints["the variables"].items()))}

    # Names, shapes and types agree, as JSON objects do.
    SimpleTrainer(configure(), processes=processes(others=[other])).train()


# ---- restoring


class Everywhere(Callback):
    """Has a state that every process needs."""

    chief_only = False
    count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class OfTheChief(Everywhere):
    """Has a state that the chief alone needs."""

    chief_only = True


class Data:
    def __init__(self, seed):
        self.position = {"flow": {"seed": seed, "epoch": 0, "index": 0}}

    def size(self):
        return 10

    def state_dict(self):
        return self.position

    def load_state_dict(self, position):
        self.position = position

    def refit(self, state):
        return None


def saved(steps=5, was=2):
    return {
        "loop": {"epoch_num": 1, "local_step": 1, "global_step": 2, "steps_per_epoch": steps},
        "callbacks": {"Everywhere": {"count": 6}, "OfTheChief": {"count": 7}},
        "input": {"flow": {"seed": 3, "epoch": 0, "index": 2}},
        "processes": was,
    }


def restore(strategy, start, *callbacks, allow=()):
    run = RunState(LoopState(steps_per_epoch=5), 1, Callbacks(callbacks), Data(8), allow)
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        variable = tf.get_variable("v", [2])
        strategy.gradient_exchange([(tf.ones([2]), variable)])
        strategy.add_ops(graph)
        sess.run(tf.global_variables_initializer())
        strategy.restore(start, sess, run)
    return run


def test_the_chief_restores_and_informs_the_others(tmp_path):
    strategy, callbacks = processes(), (Everywhere(), OfTheChief())
    path = write_checkpoint(tmp_path / "model-2", {"v": np.zeros(2, np.float32)}, saved())
    run = restore(strategy, find_starting_point(path, None), *callbacks)
    assert [callback.count for callback in callbacks] == [6, 7]
    assert run.loop.global_step == 2
    told = strategy.communicator.group.calls[-1]
    assert told == ("share", {**saved(), "callbacks": {"Everywhere": {"count": 6}}, "begins": [1, 2]})


def test_the_others_get_counters_states_and_their_own_data_position():
    told = {**saved(), "callbacks": {"Everywhere": {"count": 6}}, "begins": [1, 2]}
    callback = Everywhere()
    run = restore(processes(1, shared=told), FreshStart(), callback)
    assert (callback.count, run.loop.global_step, run.loop.starting_step) == (6, 2, 2)
    assert run.source.position == {"flow": {"seed": 8, "epoch": 0, "index": 2}}


def test_the_others_get_states_of_the_same_types(tmp_path):
    strategy, state = processes(), saved()
    count = (6, {1: b"x"}, np.float64(0.5))
    state["callbacks"] = {"Everywhere": {"count": count}}
    path = write_checkpoint(tmp_path / "model-2", {"v": np.zeros(2, np.float32)}, state)
    restore(strategy, find_starting_point(path, None), Everywhere())
    _, told = strategy.communicator.group.calls[-1]
    callback = Everywhere()
    restore(processes(1, shared=json.loads(json.dumps(told))), FreshStart(), callback)
    assert (callback.count, type(callback.count[2])) == (count, np.float64)


def test_a_fresh_start_sends_no_state():
    strategy = processes()
    restore(strategy, FreshStart())
    assert strategy.communicator.group.calls == [("step", 0), ("share", None)]


def test_a_changed_number_of_processes_needs_a_translation(tmp_path):
    path = write_checkpoint(tmp_path / "model-2", {"v": np.zeros(2)}, saved(steps=4, was=3))
    start, callbacks = find_starting_point(path, None), (Everywhere(), OfTheChief())
    with pytest.raises(CheckpointError, match=r"has 3 processes \(now 2\).*=\['world'\]\) to continue"):
        restore(processes(), start, *callbacks)
    with pytest.raises(
        CheckpointError, match="of 3 processes with 4 steps in an epoch; there are now 2 with 5"
    ):
        restore(processes(), start, *callbacks, allow=["world"])


def test_all_processes_continue_at_the_same_step():
    told = {**saved(), "callbacks": {}, "begins": [1, 3]}
    with pytest.raises(
        CheckpointError, match="Rank 1 would continue in epoch 1 at step 2, and rank 0 in epoch 1"
    ):
        restore(processes(1, shared=told), FreshStart())


# ---- stopping and failing


def test_a_stop_of_another_process_stops_this_one():
    stopped = tf.errors.InvalidArgumentError(
        None, None, "assertion failed: towerpack: another process stops here"
    )
    translated = processes().translate_error(stopped, tf.train.Coordinator())
    assert isinstance(translated, StopTraining)
    assert str(translated) == "rank 1: enough"


BROKEN = [tf.errors.AbortedError(None, None, "gone"), RuntimeError("Attempted to use a closed Session.")]


@pytest.mark.parametrize("caught", BROKEN, ids=lambda error: type(error).__name__)
def test_a_broken_exchange_names_the_lost_process(caught):
    error, coord = lost(), tf.train.Coordinator()
    assert processes(lost=error).translate_error(caught, coord) is error
    assert processes().translate_error(caught, coord) is caught
    coord.request_stop()
    strategy = processes()
    assert strategy.translate_error(caught, coord) is caught
    assert "waited" not in strategy.communicator.group.calls


@pytest.mark.parametrize(
    "caught", [ValueError("mine"), KeyboardInterrupt(), StopTraining("enough")], ids=repr
)
def test_own_errors_are_unchanged(caught):
    assert processes(lost=lost()).translate_error(caught, tf.train.Coordinator()) is caught


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), lost()], ids=repr)
def test_a_failure_is_reported_and_raised(error):
    strategy = processes()
    with pytest.raises(type(error)) as caught, strategy.failing_together(tf.train.Coordinator()):
        raise error
    assert caught.value is error
    [(closed, failure)] = strategy.communicator.group.calls
    assert (closed, failure.split(":")[0]) == ("close", type(error).__name__)


def test_a_failure_by_a_lost_process_names_it():
    strategy = processes(lost=lost())
    with pytest.raises(PeerLostError) as caught, strategy.failing_together(tf.train.Coordinator()):
        raise BROKEN[0]
    assert caught.value.__cause__ is BROKEN[0]
    assert strategy.communicator.group.calls == [("close", "PeerLostError: rank 1 is lost")]


def test_a_guarded_step_reports_its_progress():
    strategy, loop, ran = processes(), LoopState(steps_per_epoch=5, global_step=3), []
    with tf.Graph().as_default(), tf.Session() as sess:
        strategy.guard_step(lambda: ran.append(1), loop, sess)()
    assert ran == [1]
    assert strategy.communicator.group.calls == [("step", 3)]
