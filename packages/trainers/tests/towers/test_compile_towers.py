"""Towers compiled by XLA train the same model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, RunUpdateOps
from towerpack_layers import BatchNorm, Dropout, FullyConnected, TowerContext
from towerpack_trainers import ConfigError, SimpleTrainer, SyncMultiGPUTrainer
from towerpack_trainers.optimize import DynamicLossScaleOptimizer, compile_training_towers, mixed_precision

TWO = ["/cpu:0", "/cpu:1"]


def whole_net(kit):
    class Whole(kit.Net):
        """`Net` with an op that XLA does not support."""

        def build_graph(self, image, label):
            tf.numpy_function(lambda x: x, [image], tf.float32, name="foreign")
            hidden = tf.nn.relu(BatchNorm("bn", FullyConnected("fc0", image, 8)))
            logits = FullyConnected("fc1", hidden, 2)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(loss, name="cost")

    return Whole()


class Kinds(Callback):
    """Lists the kinds of ops that a step runs, after all of TensorFlow's passes."""

    def _before_train(self):
        metadata, options = tf.RunMetadata(), tf.RunOptions(output_partition_graphs=True)
        self.trainer.sess.run(self.trainer.train_op, options=options, run_metadata=metadata)
        self.kinds = {node.op for graph in metadata.partition_graphs for node in graph.node}


def train(kit, configure, towers, xla):
    config = configure(
        model=whole_net(kit),
        dataflow=kit.net_data(10, 8),
        callbacks=[RunUpdateOps(), kept := kit.Weights()],
        max_epoch=1,
        xla=xla,
    )
    trainer = SimpleTrainer(config) if towers == 1 else SyncMultiGPUTrainer(config, TWO)
    assert trainer.get_tensors([("tower0/" if towers > 1 else "") + "fc0/output"])
    trainer.train()
    return kept.values


@pytest.mark.slow
@pytest.mark.parametrize("towers", [1, 2])
def test_weights_and_statistics_are_those_without_it(kit, configure, towers):
    plain, compiled = (train(kit, configure, towers, xla) for xla in (False, True))
    assert plain.keys() == compiled.keys()
    assert np.abs(plain["bn/mean/EMA"]).max() > 0.01
    for name, value in plain.items():
        np.testing.assert_allclose(compiled[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_masks_are_a_function_of_the_step():
    drawn = []
    for _ in range(2):
        with tf.Graph().as_default(), tf.Session() as sess:
            step = tf.placeholder(tf.int64, [])
            build = compile_training_towers(lambda x: Dropout("dropout", x * 2.0, rate=0.5) + 1.0)
            with TowerContext("", is_training=True, random_seed=1, step=step):
                out = build(tf.placeholder_with_default(np.ones([64], np.float32), [64]))
            drawn.append([sess.run(out, {step: k}).tolist() for k in (0, 1, 0)])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][2] != drawn[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_the_whole_tower_is_compiled(kit, configure, xla):
    config = configure(
        model=kit.Net(), dataflow=kit.net_data(), callbacks=[kinds := Kinds()], max_epoch=1, xla=xla
    )
    SimpleTrainer(config).train()
    assert ("_XlaRun" in kinds.kinds) == xla
    assert any("MatMul" in kind or "BatchNorm" in kind for kind in kinds.kinds) == (not xla)


def test_the_users_session_config_is_not_changed(configure):
    for given in (None, tf.ConfigProto()):
        trainer = SimpleTrainer(configure(xla=True, session_config=given))
        rewrites = trainer._session_config().graph_options.rewrite_options
        assert rewrites.remapping == (rewrites.OFF if given is None else rewrites.DEFAULT)


@pytest.mark.slow
def test_with_16_bits_and_a_loss_scale(kit, configure):
    class Half(kit.Net):
        """Computes in float16."""

        def build_graph(self, image, label):
            with mixed_precision(tf.float16):
                logits = FullyConnected("fc", tf.cast(image, tf.float16), 2)
            logits = tf.cast(logits, tf.float32)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(loss, name="cost")

    values = []
    for xla in (False, True):
        optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1))
        callbacks = [kept := kit.Weights()]
        config = configure(
            model=Half(), dataflow=kit.net_data(), optimizer=optimizer, callbacks=callbacks, xla=xla
        )
        SimpleTrainer(config).train()
        values.append(kept.values)
    np.testing.assert_allclose(values[0]["fc/W"], values[1]["fc/W"], rtol=1e-2, atol=1e-3)


def test_evaluation_towers_and_initializers_are_not_compiled(kit, configure):
    trainer = SimpleTrainer(configure(xla=True))
    trainer.build_inference_tower(kit.line_data(), "inference")
    marked = {op.name for op in trainer.graph.get_operations() if op.node_def.attr["_XlaCompile"].b}
    assert {"error", "cost"} <= marked
    assert not any(name.startswith(("inference/", "slope/Initializer")) for name in marked)


def test_tensorflow_without_xla(configure, monkeypatch):
    monkeypatch.setattr(tf.test, "is_built_with_xla", lambda: False)
    with pytest.raises(
        ConfigError, match=r"xla=True: this TensorFlow was built without XLA. Remove xla=True"
    ):
        SimpleTrainer(configure(xla=True))
    SimpleTrainer(configure())


def test_the_argument_is_a_bool(configure):
    with pytest.raises(
        ConfigError, match=r"TrainConfig\(xla=...\) received 1 of type int; expected True or False"
    ):
        configure(xla=1)
