"""Callbacks of generative adversarial networks in their trainers: averages, pictures, clipping, a resume."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    BatchVariance,
    ClipWeights,
    CollapseAlarm,
    InferenceRunner,
    ModelSaver,
    SampleGrid,
    ScalarStats,
    ScopeError,
    averaged_variables,
)
from towerpack_callbacks.checkpoint import load_variables
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import FullyConnected, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANModelDesc, GANTrainer, SeparateGANTrainer, non_saturating_costs

PICTURES = np.random.default_rng(0).normal(size=(24, 2, 2)).astype(np.float32)
FLOW = BatchData(DataFromList([[picture] for picture in PICTURES], shuffle=True), 4)


class Tiny(GANModelDesc):
    """Pictures of 2 x 2 pixels, and one layer in each network."""

    def inputs(self):
        return [tf.TensorSpec([None, 2, 2], tf.float32, "real")]

    def build_graph(self, real):
        z = random_normal("noise", [tf.shape(real)[0], 3])
        z = tf.placeholder_with_default(z, [None, 3], "z")
        with tf.variable_scope("gen"):
            flat = FullyConnected("fc", z, 4, activation=tf.tanh)
            fake = tf.reshape(flat, [-1, 2, 2], name="out")
        with tf.variable_scope("discrim"):
            real_logits = FullyConnected("fc", real, 1)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = FullyConnected("fc", fake, 1)
        for scope in ("gen", "discrim"):
            with tf.variable_scope(scope, reuse=True):
                weights = tf.get_variable("fc/W")
            tf.reduce_sum(weights, name=f"{scope}_sum")
        return non_saturating_costs(real_logits, fake_logits)

    def optimizer(self):
        return tf.train.AdamOptimizer(0.05)


def train(log_dir, max_epoch, callbacks, trainer=GANTrainer, **options):
    config = TrainConfig(
        model=Tiny(), dataflow=FLOW, callbacks=callbacks, max_epoch=max_epoch, log_dir=log_dir, seed=1
    )
    made = trainer(config, **options)
    made.train()
    return made


def of_generator():
    """The averages of the generator, their pictures and their evaluation."""
    ema = EMA(0.9, scope="gen")
    evaluation = InferenceRunner(FLOW, ScalarStats(["gen_sum", "discrim_sum"]))
    grid = SampleGrid("gen/out", rows=3, columns=4)
    alarm = [BatchVariance("gen/out"), CollapseAlarm("gen/out_variance", below=1e-6)]
    return [ema, ema.applied_to(evaluation), ema.applied_to(grid), *alarm, ModelSaver()]


def statistics(log_dir):
    lines = [json.loads(line) for line in (log_dir / "stats.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if "queue" not in key} for line in lines]


def pictures(log_dir):
    return {path.name: path.read_bytes() for path in (log_dir / "images" / "samples").iterdir()}


@pytest.mark.slow
def test_a_resumed_training_has_the_averages_pictures_and_statistics_of_one_without_a_break(tmp_path):
    trainer = train(tmp_path / "whole", 2, of_generator(), d_steps=2)
    for epoch in (1, 2):
        train(tmp_path / "parts", epoch, of_generator(), d_steps=2)
    whole, parts = (load_variables(tmp_path / name) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(values, parts[name], err_msg=name)
    assert statistics(tmp_path / "whole") == statistics(tmp_path / "parts")
    assert pictures(tmp_path / "whole") == pictures(tmp_path / "parts")
    assert pictures(tmp_path / "whole").keys() == {"00000003.png", "00000006.png"}

    averages = averaged_variables(whole)
    assert not np.array_equal(averages["gen/fc/W"], whole["gen/fc/W"])
    seen = [trainer.monitors.get_latest(f"validation_{scope}_sum") for scope in ("gen", "discrim")]
    np.testing.assert_allclose(seen, [averages["gen/fc/W"].sum(), whole["discrim/fc/W"].sum()], rtol=1e-5)
    assert "discrim/fc/W/ExponentialMovingAverage" not in whole


@pytest.mark.slow
def test_a_critic_stays_within_its_limit(tmp_path):
    train(tmp_path, 1, [ClipWeights(0.01, scope="discrim"), ModelSaver()], SeparateGANTrainer, d_period=1)
    saved = load_variables(tmp_path)
    assert np.abs(saved["discrim/fc/W"]).max() == np.float32(0.01)
    assert np.abs(saved["gen/fc/W"]).max() > 0.01


def test_a_scope_that_no_network_has(tmp_path):
    with pytest.raises(ScopeError, match=r"in the scope 'G'.*: discrim/fc \(2\), gen/fc \(2\)"):
        train(tmp_path, 1, [EMA(scope="G")])
