"""Evaluation during training: each datapoint of a pass exactly once, without other effects."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    ClassificationError,
    DataParallelInferenceRunner,
    Inferencer,
    InferenceRunner,
    MaxSaver,
    PeriodicTrigger,
    ScalarStats,
)
from towerpack_callbacks.checkpoint import read_checkpoint
from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromList,
    FixedSizeData,
    JoinData,
    MapData,
    MultiProcessRunner,
    RepeatedData,
)
from towerpack_inputsource import (
    DummyConstantInput,
    FeedInput,
    QueueInput,
    SetupError,
    StagingInput,
    TensorInput,
    TFDatasetInput,
)
from towerpack_trainers import ConfigError, SimpleTrainer, SyncMultiGPUTrainer
from towerpack_trainers.towers import _batch_calls
from towerpack_trainers.towers._batch_calls import BatchCalls, BatchCopies


class Seen(Inferencer):
    """Records the inputs of each evaluation."""

    def __init__(self):
        self.rounds = []

    def _get_fetches(self):
        return ["x"]

    def _before_inference(self):
        self.rounds.append([])

    def _on_fetches(self, values, batch_size):
        assert batch_size == len(values[0])
        self.rounds[-1] += values[0].tolist()

    def _after_inference(self):
        return {}

    def produces(self):
        return []


def numbers(first, last):
    return np.arange(first, last, dtype=np.float32)


RAGGED = [[numbers(0, 4), numbers(0, 4)], [numbers(4, 8), numbers(4, 8)], [numbers(8, 9), numbers(8, 9)]]


class Unknown:
    """The same without a length."""

    def __iter__(self):
        return iter(RAGGED)


class Reusing:
    """The same in one memory, at an address from which TensorFlow copies."""

    def __iter__(self):
        memory = np.zeros(128, np.float32)
        begin = -memory.ctypes.data % 64 // 4 + 1
        for x, y in RAGGED:
            views = memory[begin : begin + len(x)], memory[begin + 20 : begin + 20 + len(y)]
            views[0][:], views[1][:] = x, y
            yield list(views)


SOURCES = {
    "list": lambda: RAGGED,
    "unknown length": Unknown,
    "reused memory": Reusing,
    "feed": lambda: FeedInput(RAGGED, infinite=False),
    "queue": lambda: QueueInput(RAGGED, infinite=False),
    "small queue": lambda: QueueInput(Unknown(), capacity=1, infinite=False),
}


@pytest.mark.parametrize("source", SOURCES)
def test_each_round_sees_each_datapoint_once(configure, source):
    seen = Seen()
    trainer = SimpleTrainer(configure(callbacks=[InferenceRunner(SOURCES[source](), seen)], max_epoch=3))
    trainer.train()
    assert seen.rounds == [list(range(9))] * 3
    assert trainer.loop.global_step == 15


class EvaluateTwice(Callback):
    """Evaluates with one list, to which a tensor is added in between."""

    def _setup_graph(self):
        self._tower = self.trainer.build_inference_tower(RAGGED, "Twice")
        self._fetches = self._tower.get_tensors(["x"])

    def _before_train(self):
        self.lengths = [{len(values) for values, _ in self._tower.evaluate(self._fetches)}]
        self._fetches *= 2
        self.lengths.append({len(values) for values, _ in self._tower.evaluate(self._fetches)})


def test_a_list_of_fetches_may_change_between_evaluations(configure):
    twice = EvaluateTwice()
    SimpleTrainer(configure(callbacks=[twice])).train()
    assert twice.lengths == [{1}, {2}]


def test_session_calls_are_prepared_once(configure, monkeypatch):
    prepared, make = [], tf.Session._make_callable_from_options

    def counted(self, options):
        prepared.extend(name for name in options.fetch if name.startswith("InferenceTower/"))
        return make(self, options)

    monkeypatch.setattr(tf.Session, "_make_callable_from_options", counted)
    seen = Seen()
    SimpleTrainer(configure(callbacks=[InferenceRunner(RAGGED, seen)], max_epoch=12)).train()
    assert seen.rounds == [list(range(9))] * 12
    # One in TensorFlow's threads, and one in the calling thread, each with its fetch and the batch size.
    assert len(prepared) <= 2 * len(set(prepared))


class Received(Inferencer):
    """Keeps the given values of each batch."""

    def __init__(self, *names):
        self.names, self.batches = names, []

    def _get_fetches(self):
        return list(self.names)

    def _on_fetches(self, values, batch_size):
        self.batches.append([*values, batch_size])

    def _after_inference(self):
        return {}

    def produces(self):
        return []


def small_batches(kit, count=121, size=8):
    """A flow of many small batches, the last one smaller; each number is there once."""
    [[images, labels]] = kit.net_data(1, count * size - 3)
    return BatchData(DataFromArrays([images, labels], shuffle=False), size, remainder=True)


def received_in(kit, configure, flow):
    """Evaluates three rounds while the network learns; returns the values for two inferencers."""
    received = [Received("cost", "logits", "label"), Received("logits", "accuracy")]
    runner = InferenceRunner(flow, received)
    SimpleTrainer(
        configure(model=kit.Net(), dataflow=kit.net_data(), callbacks=[runner], max_epoch=3, seed=3)
    ).train()
    return [inferencer.batches for inferencer in received]


def test_several_batches_in_a_call_give_the_values_of_single_ones(kit, configure, monkeypatch):
    counts, several = [], BatchCalls.__call__

    def counted(self, batches):
        counts.append(len(batches))
        return several(self, batches)

    with monkeypatch.context() as patch:
        patch.setattr(BatchCopies, "of", lambda *arguments: None)
        expected = received_in(kit, configure, small_batches(kit))
    monkeypatch.setattr(BatchCalls, "__call__", counted)
    # On a machine of any load.
    monkeypatch.setattr(_batch_calls, "_LONGEST_PASS", 1e9)
    monkeypatch.setattr(_batch_calls, "_CALLS", 1e9)
    found = received_in(kit, configure, small_batches(kit))
    assert max(counts) == 8 and sum(counts) == 3 * 121
    for one, other in zip(expected, found):
        assert len(one) == len(other) == 3 * 121
        for values, others in zip(one, other):
            for value, another in zip(values, others):
                np.testing.assert_array_equal(value, another, strict=True)


def test_a_limited_evaluation_reads_no_more_batches(kit, configure):
    read = []
    flow = BatchData(MapData(DataFromList(range(90), shuffle=False), lambda n: read.append(n) or [n, n]), 1)
    seen = Seen()
    runner = InferenceRunner(MapData(flow, lambda d: [each.astype(np.float32) for each in d]), seen)
    SimpleTrainer(configure(callbacks=[runner], evaluation_batches=3, max_epoch=2)).train()
    assert seen.rounds == [[0, 1, 2]] * 2
    assert read == [0, 1, 2] * 2


def test_rounds_of_two_runners_at_other_periods(configure):
    few, many = Seen(), Seen()
    runners = [
        PeriodicTrigger(InferenceRunner(RAGGED, few), every_k_epochs=2),
        PeriodicTrigger(InferenceRunner(RAGGED[:1], many, "Other"), every_k_steps=2, before_train=True),
    ]
    SimpleTrainer(configure(callbacks=runners, steps_per_epoch=2, max_epoch=4)).train()
    assert few.rounds == [list(range(9))] * 2
    assert many.rounds == [list(range(4))] * 5


def test_two_runners_need_two_names(configure):
    runners = [InferenceRunner(RAGGED, Seen()), InferenceRunner(RAGGED, Seen())]
    with pytest.raises(
        ValueError,
        match=r"'InferenceTower/' is already used.*Give the new tower another name, .* tower_name=",
    ):
        SimpleTrainer(configure(callbacks=runners)).train()


def test_statistics_weigh_examples(kit, configure):
    runner = InferenceRunner(RAGGED, [ScalarStats(["cost:0"], prefix="check"), ScalarStats("cost")])
    kept = kit.Weights()
    trainer = SimpleTrainer(configure(callbacks=[runner, kept], max_epoch=1))
    trainer.train()
    expected = np.mean((numbers(0, 9) * kept.values["slope"] - numbers(0, 9)) ** 2)
    for name in ("check_cost", "validation_cost"):
        assert trainer.monitors.get_latest(name) == pytest.approx(expected, rel=1e-5)


def test_the_best_checkpoint_is_kept(kit, configure, tmp_path):
    class Model(kit.Net):
        def build_graph(self, image, label):
            cost = super().build_graph(image, label)
            tower = "InferenceTower/" if not self.training else ""
            correct = tf.get_default_graph().get_tensor_by_name(f"{tower}accuracy:0")
            tf.reshape(1 - correct, [1], name="incorrect_vector")
            return cost

    data = kit.net_data()
    runner = InferenceRunner(data, [ScalarStats("accuracy"), ClassificationError()])
    config = configure(
        model=Model(), dataflow=data, callbacks=[runner, MaxSaver("validation_accuracy")], max_epoch=5
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    history = trainer.monitors.get_history("validation_accuracy")
    step, best = max(history, key=lambda item: item[1])
    assert best > 0.8
    assert trainer.monitors.get_latest("validation_error") == pytest.approx(1 - history[-1][1])
    assert read_checkpoint(tmp_path / "run" / "max-validation_accuracy").state["loop"]["global_step"] == step


def test_an_evaluation_does_not_disturb_the_training(kit, configure):
    kept, alone = kit.Weights(), kit.Weights()
    evaluated = configure(
        model=kit.Net(),
        dataflow=kit.net_data(),
        callbacks=[
            PeriodicTrigger(InferenceRunner(kit.net_data(2, seed=1), ScalarStats("cost")), every_k_steps=1),
            kept,
        ],
        extra_callbacks=None,
    )
    SimpleTrainer(evaluated).train()
    plain = configure(model=kit.Net(), dataflow=kit.net_data(), callbacks=[alone], extra_callbacks=None)
    SimpleTrainer(plain).train()
    for name, value in alone.values.items():
        np.testing.assert_array_equal(kept.values[name], value, err_msg=name)


def test_with_several_towers(configure):
    seen = Seen()
    config = configure(callbacks=[InferenceRunner(RAGGED, seen)])
    SyncMultiGPUTrainer(config, ["/cpu:0", "/cpu:1"]).train()
    assert seen.rounds == [list(range(9))] * 2


@pytest.mark.parametrize(
    "source",
    [lambda: QueueInput(RAGGED), lambda: FeedInput(RAGGED), lambda: DummyConstantInput([(4,), (4,)])],
)
def test_an_input_without_end_is_refused(configure, source):
    with pytest.raises(ConfigError, match=r"an input that ends, but .* Write \w+\(\.\.\., infinite=False\)"):
        SimpleTrainer(configure(callbacks=[InferenceRunner(source(), Seen())])).train()


def test_an_input_without_data_is_an_error(configure):
    with pytest.raises(ValueError, match=r"gave no datapoint in this pass. Check its filters"):
        SimpleTrainer(configure(callbacks=[InferenceRunner([], Seen())])).train()


@pytest.mark.parametrize("wrong", [None, 3, ["cost"], [ScalarStats]], ids=str)
def test_inferencers_are_inferencers(wrong):
    with pytest.raises(TypeError, match="InferenceRunner takes Inferencer objects such as ScalarStats"):
        InferenceRunner(RAGGED, wrong)


@pytest.mark.parametrize("wrong", [None, 3, iter(RAGGED)], ids=["none", "number", "iterator"])
def test_the_input_can_be_iterated_again(configure, wrong):
    with pytest.raises(TypeError, match=r"reads a DataFlow or another iterable|allows only one pass"):
        SimpleTrainer(configure(callbacks=[InferenceRunner(wrong, Seen())])).train()


def test_a_tensor_the_model_does_not_make(configure):
    with pytest.raises(
        KeyError, match=r"no tensor 'InferenceTower/costs:0'. Close names are: .*Name it in the model"
    ):
        SimpleTrainer(configure(callbacks=[InferenceRunner(RAGGED, ScalarStats("costs"))])).train()


def test_a_vector_is_not_a_scalar(configure):
    with pytest.raises(ValueError, match=r"takes scalars; tensor 'error' has shape \(4,\). Reduce it"):
        SimpleTrainer(configure(callbacks=[InferenceRunner(RAGGED, ScalarStats("error"))])).train()


class Fails:
    """Yields its datapoints, then fails, in the evaluation of the given number."""

    def __init__(self, datapoints, round_number):
        self.datapoints, self.left = datapoints, round_number

    def __iter__(self):
        self.left -= 1
        yield from self.datapoints
        if not self.left:
            raise OSError("the disk is gone")


@pytest.mark.parametrize(
    "wrap", [lambda flow: flow, lambda flow: QueueInput(flow, capacity=1, infinite=False)]
)
@pytest.mark.parametrize("number", [1, 2])
def test_an_error_in_its_data_is_raised_unchanged(configure, wrap, number):
    seen = Seen()
    config = configure(callbacks=[InferenceRunner(wrap(Fails(RAGGED, number)), seen)], max_epoch=2)
    trainer = SimpleTrainer(config)
    with pytest.raises(OSError, match="the disk is gone"):
        trainer.train()
    assert trainer.loop.epoch_num == number
    assert len(seen.rounds) == number


def test_its_tower_shares_variables_and_does_not_train(kit, configure):
    trainer = SimpleTrainer(configure(model=kit.Net(), dataflow=kit.net_data()))
    names = {variable.name for variable in trainer.graph.get_collection("variables")}
    with trainer.graph.as_default():
        trainer.build_inference_tower(kit.net_data(), "check")
    assert {variable.name for variable in trainer.graph.get_collection("variables")} == names
    assert [tower.context.is_training for tower in trainer.tower_func.towers] == [True, False]


# ---- on several devices


@pytest.mark.parametrize("source", ["list", "unknown length", "reused memory"])
@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_several_devices_see_each_datapoint_once_and_in_order(configure, source, devices):
    seen = Seen()
    places = [f"/cpu:{index}" for index in range(devices)]
    runner = DataParallelInferenceRunner(SOURCES[source](), [seen, ScalarStats("cost")], places)
    alone = InferenceRunner(RAGGED, ScalarStats("cost", prefix="alone"))
    trainer = SimpleTrainer(configure(callbacks=[runner, alone], max_epoch=3))
    trainer.train()
    assert seen.rounds == [list(range(9))] * 3
    assert trainer.loop.global_step == 15
    history = trainer.monitors.get_history("validation_cost")
    assert history == trainer.monitors.get_history("alone_cost")


def test_replicas_are_on_their_devices(configure):
    runner = DataParallelInferenceRunner(RAGGED, Seen(), ["/cpu:0", "/cpu:1"])
    trainer = SyncMultiGPUTrainer(configure(callbacks=[runner]), ["/cpu:0", "/cpu:1"])
    trainer.train()
    placed = {
        name: trainer.graph.get_operation_by_name(f"{name}/error").device
        for name in ("InferenceTower0", "InferenceTower1")
    }
    assert [tf.DeviceSpec.from_string(device).device_index for device in placed.values()] == [0, 1]


def test_an_error_in_the_data_of_several_devices(configure):
    runner = DataParallelInferenceRunner(Fails(RAGGED, 1), Seen(), ["/cpu:0", "/cpu:1"])
    with pytest.raises(OSError, match="the disk is gone"):
        SimpleTrainer(configure(callbacks=[runner])).train()


def test_several_devices_share_a_flow_and_no_input_source(configure):
    runner = DataParallelInferenceRunner(QueueInput(RAGGED, infinite=False), Seen(), ["/cpu:0", "/cpu:1"])
    with pytest.raises(ConfigError, match=r"share the datapoints of a DataFlow.*Pass the DataFlow itself"):
        SimpleTrainer(configure(callbacks=[runner])).train()


def test_the_same_device_several_times(configure):
    runner = DataParallelInferenceRunner(RAGGED, Seen(), ["/cpu:0", "/cpu:0"])
    with pytest.raises(ConfigError, match="names a device twice"):
        SimpleTrainer(configure(callbacks=[runner])).train()


@pytest.mark.parametrize("devices", [[], ["/cpu:0", "/cpu:1"]])
def test_a_dry_run_evaluates_few_batches(configure, devices):
    seen = Seen()
    runner = DataParallelInferenceRunner(RAGGED, seen, devices) if devices else InferenceRunner(RAGGED, seen)
    trainer = SimpleTrainer(configure(callbacks=[runner], max_epoch=2))
    trainer.loop.evaluation_batches = 1
    trainer.train()
    assert seen.rounds == [list(range(4))] * 2


def test_the_queue_of_an_evaluation_is_not_a_summary_of_the_training(kit, configure):
    """Otherwise each training step would fetch its size, and the monitors would record it under a number."""
    trainer = SimpleTrainer(
        configure(
            data=QueueInput(kit.line_data()),
            callbacks=[InferenceRunner(QueueInput(RAGGED, infinite=False), ScalarStats("cost"))],
        )
    )
    trainer.train()
    with trainer.graph.as_default():
        names = [tensor.op.name for tensor in tf.get_collection("MOVING_SUMMARIES")]
    assert sorted(names) == ["QueueInput/queue_size", "cost"]


def test_a_training_on_tensors_is_evaluated_on_a_flow(configure):
    """The tensors have the names of the placeholders that the evaluation feeds."""
    seen = Seen()
    trained = TensorInput(lambda: [tf.ones([4]), tf.ones([4])])
    runner = InferenceRunner(RAGGED, seen)
    SimpleTrainer(configure(data=trained, steps_per_epoch=2, max_epoch=2, callbacks=[runner])).train()
    assert seen.rounds == [list(range(9))] * 2


@pytest.mark.parametrize("devices", [[], ["/cpu:0", "/cpu:1"]])
def test_one_flow_for_training_and_evaluation_is_refused(configure, devices):
    flow, stats = WithPosition(), ScalarStats("cost")
    runner = DataParallelInferenceRunner(flow, stats, devices) if devices else InferenceRunner(flow, stats)
    with pytest.raises(SetupError, match=r"is already read by QueueInput, so FeedInput cannot"):
        SimpleTrainer(configure(data=QueueInput(flow), steps_per_epoch=2, callbacks=[runner])).train()


class WithPosition(Unknown):
    """A flow with a position."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        """Takes nothing."""


ENDLESS = {
    "repeated": lambda: RepeatedData(RAGGED, -1),
    "mapped": lambda: MapData(RepeatedData(RAGGED, -1), lambda datapoint: datapoint),
    "joined": lambda: JoinData([RepeatedData([[1.0]], -1), RepeatedData([[1.0]], -1)]),
    "replicated": lambda: MultiProcessRunner(DataFromList(RAGGED), 1, replicate=True),
    "fed": lambda: FeedInput(RepeatedData(RAGGED, -1), infinite=False),
    "queued": lambda: QueueInput(RepeatedData(RAGGED, -1), infinite=False),
    "staged": lambda: StagingInput(QueueInput(RAGGED)),
    "of tf.data": lambda: TFDatasetInput(tf2.data.Dataset.range(3).repeat(), infinite=False),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("source", ENDLESS)
def test_an_evaluation_that_would_never_end_is_refused(configure, source):
    runner = InferenceRunner(ENDLESS[source](), Seen())
    with pytest.raises(ConfigError, match=r"needs an input that ends, but .* repeats for ever\. Write"):
        SimpleTrainer(configure(callbacks=[runner])).train()


def test_a_repetition_of_a_given_length_is_evaluated(configure):
    seen = Seen()
    flow = FixedSizeData(RepeatedData(RAGGED, -1), len(RAGGED))
    SimpleTrainer(configure(callbacks=[InferenceRunner(flow, seen)], max_epoch=1)).train()
    assert seen.rounds == [list(range(9))]
