"""Several small steps are one large one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from towerpack_trainers.optimize import (
    LARS,
    AccumGradOptimizer,
    AdamW,
    DynamicLossScaleOptimizer,
    GlobalNormClip,
    SummaryGradient,
    apply_grad_processors,
)
from towerpack_trainers.testing import FinalVariables

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


class Embedding(Smooth):
    """Looks rows up, so that its gradient is sparse."""

    def build_graph(self, image, label):
        table = tf.get_variable("table", [5, 2], initializer=tf.glorot_uniform_initializer(seed=1))
        logits = tf.gather(table, tf.cast(tf.abs(image[:, 0] * 2), tf.int32) % 5)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")


def joined(batches, count):
    """Every `count` batches as one."""
    return [
        [np.concatenate(parts) for parts in zip(*batches[k : k + count])]
        for k in range(0, len(batches), count)
    ]


def weights_after(make, kit, configure, model, optimizer, data, **changes):
    kept = FinalVariables()
    config = configure(
        model=model, dataflow=data, optimizer=optimizer, callbacks=[kept], max_epoch=1, **changes
    )
    make(config).train()
    return kept.values


def assert_equal_weights(small, large, rtol=1e-5):
    for name, value in large.items():
        if name != "global_step":
            np.testing.assert_allclose(small[name], value, rtol=rtol, atol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("model", [Smooth, Embedding])
@pytest.mark.parametrize(
    "make_optimizer",
    [lambda: tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer, lambda: LARS(0.5, trust=0.1)],
    ids=["plain", "Adam", "LARS"],
)
def test_averaged_steps_are_one_step_with_the_large_batch(kit, configure, model, make_optimizer):
    batches = kit.net_data(30, 4)
    accumulating = AccumGradOptimizer(make_optimizer(), 3)
    small = weights_after(SimpleTrainer, kit, configure, model(), accumulating, batches)
    large = weights_after(SimpleTrainer, kit, configure, model(), make_optimizer(), joined(batches, 3))
    assert small["global_step"] == 30
    assert_equal_weights(small, large)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated])
@pytest.mark.parametrize("wrap", [DynamicLossScaleOptimizer, lambda optimizer: optimizer], ids=["scaled", ""])
def test_with_several_towers(kit, configure, trainer, wrap):
    batches = kit.net_data(24, 4)

    def two_towers(config):
        return trainer(config, devices=TWO)

    accumulating = wrap(AccumGradOptimizer(AdamW(0.01), 3))
    small = weights_after(two_towers, kit, configure, Smooth(), accumulating, batches, steps_per_epoch=12)
    large = weights_after(SimpleTrainer, kit, configure, Smooth(), AdamW(0.01), joined(batches, 6))
    assert_equal_weights(small, large)
    added = {"first/AccumGrad", "second/AccumGrad", "AccumGradOptimizer/count"}
    assert {name for name in small.keys() ^ large.keys() if "LossScale" not in name} == added


def test_towers_with_separate_updates_are_refused(kit, configure):
    optimizer = AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
    with pytest.raises(ValueError, match=r"called twice for 'slope'.*Use a synchronous trainer"):
        AsyncMultiGPUTrainer(configure(optimizer=optimizer), devices=TWO)


def test_sums_are_n_times_the_averages(kit, configure):
    batches = kit.net_data(12, 4)
    summed = AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1 / 4), 4, reduction="sum")
    averaged = AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 4)
    assert_equal_weights(
        weights_after(SimpleTrainer, kit, configure, Smooth(), summed, batches),
        weights_after(SimpleTrainer, kit, configure, Smooth(), averaged, batches),
    )


def test_inner_processors_see_accumulated_gradients(kit, configure):
    batches = kit.net_data(12, 4)

    def clipping():
        return apply_grad_processors(tf.train.GradientDescentOptimizer(1.0), [GlobalNormClip(0.05)])

    assert_equal_weights(
        weights_after(SimpleTrainer, kit, configure, Smooth(), AccumGradOptimizer(clipping(), 3), batches),
        weights_after(SimpleTrainer, kit, configure, Smooth(), clipping(), joined(batches, 3)),
    )


@pytest.mark.slow
def test_each_update_comes_after_exactly_n_steps():
    with tf.Graph().as_default(), tf.Session() as sess:
        variable, big = (
            tf.get_variable("v", initializer=0.0),
            tf.get_variable("big", initializer=tf.zeros([500, 500])),
        )
        given = tf.placeholder(tf.float32, [])
        optimizer = AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 3)
        step = tf.train.get_or_create_global_step()
        pairs = [(given, variable), (None, tf.get_variable("unused", [])), (tf.fill([500, 500], given), big)]
        update = optimizer.apply_gradients(pairs, global_step=step, name="update")
        assert update.name == "update"
        sess.run(tf.global_variables_initializer())
        total = 0.0
        for k in range(300):
            sess.run(update, {given: float(k)})
            if k % 3 == 2:
                total -= k - 1
            assert sess.run([variable, step]) == [total, (k + 1) // 3]
        assert (sess.run(big) == total).all()
        assert not any(op.graph is not sess.graph for op in tf.get_collection(tf.GraphKeys.TRAIN_OP))


class StopAt(Callback):
    """Fails at a step."""

    def __init__(self, step):
        self._step = step

    def _trigger_step(self):
        if self.global_step == self._step:
            raise RuntimeError("the lights went out")


@pytest.mark.slow
def test_a_run_stopped_between_two_updates_continues_exactly(kit, configure):
    def make(*callbacks, **changes):
        optimizer = AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 4)
        data = kit.net_flow(40, 4)
        return SimpleTrainer(
            configure(
                model=Smooth(),
                dataflow=data,
                optimizer=optimizer,
                callbacks=list(callbacks),
                max_epoch=2,
                **changes,
            )
        )

    make(whole := FinalVariables(), log_dir=None).train()
    with pytest.raises(RuntimeError, match="the lights"):
        # 10 steps an epoch: the checkpoint is written when two of four gradients are in.
        make(ModelSaver(), StopAt(13)).train()
    make(ModelSaver(), resumed := FinalVariables(), resume="auto").train()
    assert "AccumGradOptimizer/count" in resumed.values and "first/AccumGrad" in resumed.values
    assert resumed.values["AccumGradOptimizer/count"] == 0
    assert resumed.values.keys() == whole.values.keys()
    for name, value in whole.values.items():
        np.testing.assert_array_equal(resumed.values[name], value, err_msg=name)


def test_two_accumulators_in_one_graph():
    with tf.Graph().as_default(), tf.Session() as sess:
        variables = [tf.get_variable(name, initializer=0.0) for name in "ab"]
        updates = [
            AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), n).apply_gradients([(tf.ones([]), v)])
            for n, v in zip((2, 3), variables)
        ]
        sess.run(tf.global_variables_initializer())
        for _ in range(6):
            sess.run(updates)
        assert sess.run(variables) == [-3.0, -2.0]


def test_under_a_dynamic_loss_scale_and_the_other_way_round():
    for order in (0, 1):
        with tf.Graph().as_default(), tf.Session() as sess:
            variable, given = tf.get_variable("v", initializer=0.0), tf.placeholder(tf.float32, [])
            plain = tf.train.GradientDescentOptimizer(1.0)
            optimizer = (
                DynamicLossScaleOptimizer(AccumGradOptimizer(plain, 2))
                if order
                else AccumGradOptimizer(DynamicLossScaleOptimizer(plain), 2)
            )
            update = optimizer.apply_gradients(optimizer.compute_gradients(variable * given))
            sess.run(tf.global_variables_initializer())
            for value in (1.0, np.inf, 3.0, 5.0):
                sess.run(update, {given: value})
            # Outside, an overflow costs its own step: 1 and 3 make an update. Inside, it costs two.
            assert sess.run(variable) == (-2.0 if order else -4.0)


def test_variables_and_slots_are_listed(kit):
    with tf.Graph().as_default():
        variable = tf.get_variable("v", initializer=0.0)
        optimizer = AccumGradOptimizer(tf.train.MomentumOptimizer(1.0, 0.9), 2)
        optimizer.apply_gradients([(tf.ones([]), variable)])
        assert optimizer.get_slot_names() == ["accumulated", "momentum"]
        assert {v.op.name for v in optimizer.variables()} == {"v/AccumGrad", "v/Momentum"}
        assert optimizer.get_slot(variable, "accumulated").op.name == "v/AccumGrad"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, r"AccumGradOptimizer\(steps=0\): expected a whole number of at least 1"),
        ({"steps": 2.0}, r"AccumGradOptimizer\(steps=2.0\)"),
        ({"steps": 2, "reduction": "max"}, r"reduction='max'\): expected \"mean\" or \"sum\""),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        AccumGradOptimizer(tf.train.AdamOptimizer(), **arguments)


def test_invalid_gradients():
    with tf.Graph().as_default():
        variable = tf.get_variable("v", initializer=0.0)
        reference = tf.get_variable("r", initializer=0.0, use_resource=False)
        optimizer = AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 2)
        with pytest.raises(ValueError, match=r"only for resource variables; 'r' is not one"):
            optimizer.apply_gradients([(tf.ones([]), reference)])
        with pytest.raises(ValueError, match=r"received no gradient of any variable"):
            optimizer.apply_gradients([(None, variable)])
        optimizer.apply_gradients([(tf.ones([]), variable)])
        with pytest.raises(ValueError, match=r"called twice for 'v'.*Use a synchronous trainer"):
            optimizer.apply_gradients([(tf.ones([]), variable)])


def test_summaries_must_be_outside():
    with tf.Graph().as_default():
        recording = apply_grad_processors(tf.train.GradientDescentOptimizer(1.0), [SummaryGradient()])
        with pytest.raises(ValueError, match=r"SummaryGradient is inside an optimizer that"):
            pairs = [(tf.ones([]), tf.get_variable("v", initializer=0.0))]
            AccumGradOptimizer(recording, 2).apply_gradients(pairs)
