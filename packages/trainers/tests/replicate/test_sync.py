"""Two towers in step are one tower with twice the batch."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import FeedInput, StagingInput
from towerpack_trainers import (
    ConfigError,
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
)
from towerpack_trainers.replicate import average_gradients

TWO = ["/cpu:0", "/cpu:1"]


class Smooth(ModelDesc):
    """A small network without anything random or batch-dependent."""

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        first = tf.get_variable("first", [4, 8], initializer=tf.glorot_uniform_initializer(seed=1))
        second = tf.get_variable("second", [8, 2], initializer=tf.glorot_uniform_initializer(seed=2))
        logits = tf.matmul(tf.tanh(tf.matmul(image, first)), second)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


class Embedding(Smooth):
    """Looks rows up, so that its gradient is sparse."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.int32, "word"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, word, label):
        table = tf.get_variable("table", [5, 2], initializer=tf.glorot_uniform_initializer(seed=1))
        logits = tf.gather(table, word)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")


def words(batches):
    rng = np.random.default_rng(0)
    return [
        [rng.integers(0, 5, 4).astype(np.int32), rng.integers(0, 2, 4).astype(np.int32)]
        for _ in range(batches)
    ]


def joined(batches):
    """Every two batches as one."""
    return [[np.concatenate(pair) for pair in zip(*two)] for two in zip(batches[::2], batches[1::2])]


@pytest.mark.parametrize(
    "optimizer", [tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer(), None]
)
@pytest.mark.parametrize("model", [Smooth, Embedding])
def test_two_towers_are_one_with_twice_the_batch(kit, configure, model, optimizer):
    batches = kit.net_data(40) if model is Smooth else words(40)
    weights = []
    for make, data in (
        (SimpleTrainer, joined(batches)),
        (lambda config: SyncMultiGPUTrainer(config, TWO), batches),
    ):
        kept = kit.Weights()
        make(
            configure(
                model=model(),
                dataflow=data,
                optimizer=optimizer,
                callbacks=[kept],
                steps_per_epoch=20,
                max_epoch=1,
            )
        ).train()
        weights.append(kept.values)
    one, two = weights
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_one_tower_is_the_simple_trainer(kit, configure):
    values = []
    for make in (SimpleTrainer, lambda config: SyncMultiGPUTrainer(config, ["/cpu:0"])):
        make(configure(callbacks=[kept := kit.Weights()])).train()
        values.append(kept.values["slope"])
    assert values[0] == values[1]


def test_each_tower_takes_its_turn(kit, configure):
    """So a run is reproducible, even if the main tower's batch matters."""
    ends = []
    for _ in range(3):
        config = configure(
            model=kit.Net(),
            dataflow=kit.net_data(8),
            callbacks=[kept := kit.Weights()],
            extra_callbacks=None,
            max_epoch=5,
        )
        SyncMultiGPUTrainer(config, TWO).train()
        ends.append(kept.values["bn/mean/EMA"].tolist())
    assert ends[0] == ends[1] == ends[2]


def test_taking_input_waits_for_the_previous_tower(configure):
    trainer = SyncMultiGPUTrainer(configure(), TWO)
    first, second = [tower.inputs["x"].op for tower in trainer.tower_func.towers]
    dequeues = [op for op in trainer.graph.get_operations() if op.type == "QueueDequeueV2"]
    takes = [op for op in dequeues if not op.name.endswith("/dropped")]  # at the end of a run, not in a step
    assert [first in take.control_inputs for take in takes] == [False, True]
    assert not any(second in take.control_inputs for take in takes)


def test_variables_are_shared_and_ops_are_where_they_belong(kit, configure):
    class Model(kit.Line):
        def build_graph(self, x, y):
            with tf.device("/cpu:0"):
                pinned = tf.identity(x, name="pinned")
            return super().build_graph(pinned, y)

    trainer = SyncMultiGPUTrainer(configure(model=Model()), ["/cpu:1", "/cpu:2"])
    assert [v.op.name for v in trainer.graph.get_collection("trainable_variables")] == ["slope"]

    def device(name):
        return tf.DeviceSpec.from_string(trainer.graph.get_operation_by_name(name).device).device_index

    assert [device(name) for name in ("slope", "tower0/error", "tower1/error")] == [0, 1, 2]
    assert device("tower1/pinned") == 0


def test_a_summary_of_the_batches_is_logged(configure, caplog):
    caplog.set_level("INFO")
    SyncMultiGPUTrainer(configure(), TWO)
    assert "2 towers, one batch for each: one step trains on 2 datapoints" in caplog.text


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([], r"devices=\[\]: expected a list such as"),
        ("/gpu:0", r"devices='/gpu:0': expected a list such as"),
        ({2}, r"devices=\{2\}: expected a list such as"),
        ([0, 1], r"received 0; expected strings such as \"/gpu:0\""),
        (["gpu0"], r"received 'gpu0'; expected strings such as"),
        (["/job:worker"], r"received '/job:worker'; expected strings such as"),
        (["/cpu:0", "/cpu:0"], r"names a device twice; one tower per device"),
        (["/cpu:1", "/device:CPU:1"], r"names a device twice"),
        (["/cpu:0", "/gpu:7"], r"names GPU 7, but this host has 0 GPUs"),
    ],
    ids=str,
)
def test_invalid_devices(configure, monkeypatch, devices, message):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(ConfigError, match=message):
        SyncMultiGPUTrainer(configure(), devices)


def test_no_gpu_at_all(configure, monkeypatch, caplog):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
    trainer = SyncMultiGPUTrainer(configure())
    assert trainer.devices == ["/cpu:0"]
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "no GPU on this host, so one tower trains on the CPU. To try several towers" in record.message
    trainer.train()
    assert trainer.loop.global_step == 10


def test_all_gpus_are_the_default(configure, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one", "other"])
    trainer = SyncMultiGPUTrainerParameterServer(configure())
    assert trainer.devices == ["/gpu:0", "/gpu:1"]
    assert isinstance(trainer.source, StagingInput)
    assert SyncMultiGPUTrainerParameterServer(configure(), gpus=1).devices == ["/gpu:0"]
    assert SyncMultiGPUTrainerParameterServer(configure(), gpus=[1]).devices == ["/gpu:1"]


@pytest.mark.parametrize("gpus", [0, True, [], [0, "1"], "01", [-1]], ids=str)
def test_invalid_gpus(configure, gpus):
    with pytest.raises(
        ConfigError, match=r"gpus=.*: expected the indices of GPUs, such as \[0, 1\], or their number"
    ):
        SyncMultiGPUTrainer(configure(), gpus=gpus)


def test_gpus_and_devices(configure):
    with pytest.raises(ConfigError, match=r"both devices=\['/cpu:0'\] and gpus=\[0\]; give only one of them"):
        SyncMultiGPUTrainer(configure(), ["/cpu:0"], gpus=[0])


def test_an_input_for_only_one_tower(kit, configure):
    with pytest.raises(ConfigError, match=r"FeedInput feeds one .* all 2 towers .* Use QueueInput"):
        SyncMultiGPUTrainer(configure(data=FeedInput(kit.line_data())), TWO)


def test_a_sparse_and_a_dense_gradient_are_averaged():
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("table", [3])
        sparse = tf.IndexedSlices(tf.constant([2.0]), tf.constant([1]), tf.constant([3]))
        dense = tf.constant([1.0, 1.0, 1.0])
        (average, variable), *more = average_gradients([[(sparse, table)], [(dense, table)]])
        assert (variable, more) == (table, [])
        assert sess.run(average).tolist() == [0.5, 1.5, 0.5]
