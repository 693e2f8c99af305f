"""Variables that are frozen, remapped and shared, in trainings over two towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import (
    BatchNorm,
    FullyConnected,
    auto_reuse_variable_scope,
    freeze_variables,
    remap_variables,
)
from towerpack_trainers import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
)

TWO = ["/cpu:0", "/cpu:1"]
FROZEN = ["backbone/W", "backbone/b"]
TRAINED = ["bn/gamma", "bn/beta", "head/W", "head/b", "last/W", "last/b"]


def binarize(variable):
    """The sign, with the gradient of the identity."""
    if variable.op.name.split("/")[-2:] != ["head", "W"]:
        return variable
    return variable + tf.stop_gradient(tf.sign(variable) - variable)


@auto_reuse_variable_scope
def head(x):
    with remap_variables(binarize):
        return FullyConnected("head", x, 4)


class Model(ModelDesc):
    """A frozen part, a binary one that is used twice, and one that trains."""

    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "x")]

    def build_graph(self, x):
        with freeze_variables(stop_gradient=False, skip_collection=True):
            features = FullyConnected("backbone", x, 4)
        hidden = head(tf.nn.relu(head(BatchNorm("bn", features))))
        error = FullyConnected("last", hidden, 1)[:, 0] - tf.reduce_sum(x, 1)
        return tf.reduce_mean(error**2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.01)


class Look(Callback):
    """Records the graph's collections and the initial values."""

    def _setup_graph(self):
        # A replicated tower has copies, with names that begin with its own.
        self.trained, self.of_model = (
            [v.op.name for v in variables if not v.op.name.startswith("tower")]
            for variables in (tf.trainable_variables(), tf.model_variables())
        )

    def _before_train(self):
        named = {v.op.name: v for v in tf.global_variables()}
        self.first = self.trainer.sess.run({name: named[name] for name in (*FROZEN, *TRAINED)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        SimpleTrainer,
        lambda config: SyncMultiGPUTrainerParameterServer(config, TWO),
        lambda config: SyncMultiGPUTrainerReplicated(config, TWO, mode="hierarchical"),
    ],
    ids=["one", "shared", "replicated"],
)
def test_frozen_variables_stay_and_are_saved_and_remapped_ones_train(make, tmp_path):
    rows = np.random.default_rng(0).normal(size=[64, 3]).astype("f4")
    flow = BatchData(DataFromList([[row] for row in rows]), 8)
    look = Look()
    config = TrainConfig(
        model=Model(),
        dataflow=flow,
        callbacks=[
            look,
            ModelSaver(),
            InferenceRunner(BatchData(DataFromList([[rows[0]]]), 1), ScalarStats("cost")),
        ],
        steps_per_epoch=5,
        max_epoch=1,
        log_dir=tmp_path / "run",
        seed=3,
    )
    make(config).train()
    assert look.trained == TRAINED
    assert look.of_model == [*FROZEN, "bn/mean/EMA", "bn/variance/EMA"]
    saved = load_variables(latest_checkpoint(tmp_path / "run"))
    for name in FROZEN:
        np.testing.assert_array_equal(saved[name], look.first[name])
    for name in ("head/W", "last/W"):
        assert (saved[name] != look.first[name]).any()
    assert not set(np.unique(saved["head/W"])) <= {-1.0, 0.0, 1.0}
