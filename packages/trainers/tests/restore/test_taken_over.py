"""Values other than weights that a new run takes over are logged, and missing copies are made."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import EMA, Callback, CheckpointError, ModelSaver
from towerpack_callbacks.checkpoint import load_variables, read_checkpoint
from towerpack_trainers import DictRestore, SaverRestore, SimpleTrainer, SmartInit
from towerpack_trainers.restore import SessionInit

AVERAGE = "/ExponentialMovingAverage"

pytestmark = pytest.mark.slow


@pytest.fixture
def train(kit, configure, tmp_path):
    """Trains with a learning rate in a variable and momentum; returns the final variables."""

    def run(name, learning_rate=0.1, callbacks=(), model=kit.Net, **changes):
        class Model(model):
            def optimizer(self):
                rate = tf.get_variable(
                    "learning_rate", [], trainable=False, initializer=tf.constant_initializer(learning_rate)
                )
                return tf.train.MomentumOptimizer(rate, 0.9)

        flow = kit.net_flow()
        flow.seed(1)
        saver = ModelSaver()
        changes = {"max_epoch": 1, "log_dir": tmp_path / name, **changes}
        SimpleTrainer(
            configure(model=Model(), dataflow=flow, callbacks=[*callbacks, saver], **changes)
        ).train()
        return read_checkpoint(tmp_path / name).variables

    return run


@pytest.fixture
def first():
    """Records variables right before the first step."""

    class First(Callback):
        def _before_train(self):
            graph = self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
            self.values = self.trainer.sess.run({variable.op.name: variable for variable in graph})

    return First


def said(caplog):
    return [record.getMessage() for record in caplog.records if "Taken over" in record.getMessage()]


@pytest.mark.parametrize(
    "make",
    [SmartInit, SaverRestore, lambda path: DictRestore(load_variables(path))],
    ids=["SmartInit", "SaverRestore", "DictRestore"],
)
def test_the_rate_and_the_steps_of_another_run_are_named(train, tmp_path, caplog, make):
    train("old")
    train("new", 0.001, session_init=make(tmp_path / "old"))
    [line] = said(caplog)
    assert "learning_rate 0.001 -> 0.1" in line and "global_step 0 -> 6" in line
    assert "fc0/W/Momentum" in line or "more" in line
    assert "bn/mean" not in line


@pytest.mark.parametrize("make", [SmartInit, SaverRestore], ids=["SmartInit", "SaverRestore"])
def test_ignored_variables_keep_their_initial_values_and_are_not_logged(train, tmp_path, caplog, make):
    train("old")
    ignore = ["learning_rate", "global_step", ".*/Momentum"]
    new = train("new", 0.001, session_init=make(tmp_path / "old", ignore=ignore))
    assert said(caplog) == []
    assert (new["learning_rate"], new["global_step"]) == (np.float32(0.001), 6)


def test_a_dictionary_may_be_ignored_in_part(train, tmp_path, caplog):
    old = train("old")
    new = train("new", 0.001, session_init=DictRestore(old, ignore=["learning_rate"]))
    assert new["learning_rate"] == np.float32(0.001)
    assert "learning_rate" not in said(caplog)[0]


def test_equal_values_are_not_named_and_a_resumed_run_logs_nothing(train, tmp_path, caplog):
    train("old")
    train("new", session_init=SmartInit(tmp_path / "old"))
    assert "learning_rate" not in said(caplog)[0]
    caplog.clear()
    train("old", max_epoch=2, resume="auto")
    assert said(caplog) == []


@pytest.mark.parametrize("ending", [".weights.h5", ".keras", ".h5"])
def test_a_damaged_file_of_keras_is_named(tmp_path, ending):
    path = tmp_path / f"net{ending}"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(CheckpointError, match=f"net{ending} cannot be read as a Keras file"):
        load_variables(path)


def without(names, values):
    return {name: value for name, value in values.items() if not any(part in name for part in names)}


class OfOnesOwn(SessionInit):
    """Assigns values through TensorFlow directly, without a record of them."""

    def __init__(self, values):
        self.values = values

    def restore(self, sess):
        for variable in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
            if variable.op.name in self.values:
                variable.load(self.values[variable.op.name], sess)


@pytest.mark.parametrize("make", [SmartInit, DictRestore, OfOnesOwn])
def test_averages_that_are_not_restored_begin_as_copies(train, first, tmp_path, make):
    old = train("old", callbacks=[EMA(0.9)])
    begin = first()
    train("new", callbacks=[EMA(0.9), begin], session_init=make(without([AVERAGE, "EMA/updates"], old)))
    assert begin.values["fc0/W"].tobytes() == old["fc0/W"].tobytes()
    assert begin.values["fc0/W" + AVERAGE].tobytes() == old["fc0/W"].tobytes()


@pytest.mark.parametrize("make", [SmartInit, DictRestore])
def test_averages_of_new_variables_begin_as_copies_and_the_others_are_kept(train, first, make):
    old = train("old", callbacks=[EMA(0.9)])
    begin = first()
    train("new", callbacks=[EMA(0.9), begin], session_init=make(without(["fc1"], old)))
    assert begin.values["EMA/updates"] == 6
    assert begin.values["fc0/W" + AVERAGE].tobytes() == old["fc0/W" + AVERAGE].tobytes()
    assert begin.values["fc1/W"].tobytes() != old["fc1/W"].tobytes()
    assert begin.values["fc1/W" + AVERAGE].tobytes() == begin.values["fc1/W"].tobytes()


def test_averages_whose_number_of_updates_is_unknown_are_kept(train, first):
    old = train("old", callbacks=[EMA(0.9)])
    begin = first()
    train("new", callbacks=[EMA(0.9), begin], session_init=SmartInit(without(["EMA/updates"], old)))
    assert begin.values["fc0/W" + AVERAGE].tobytes() == old["fc0/W" + AVERAGE].tobytes()


def test_averages_that_are_ignored_begin_as_copies(train, first, tmp_path):
    old = train("old", callbacks=[EMA(0.9)])
    begin = first()
    init = SaverRestore(tmp_path / "old", ignore=[f".*{AVERAGE}"])
    train("new", callbacks=[EMA(0.9), begin], session_init=init)
    assert begin.values["fc0/W" + AVERAGE].tobytes() == old["fc0/W"].tobytes()


def test_averages_that_a_resumed_checkpoint_lacks_begin_as_copies(train, first):
    old = train("run")
    begin = first()
    train("run", callbacks=[EMA(0.9), begin], resume="auto", resume_allow=["missing"], max_epoch=2)
    assert begin.values["fc0/W" + AVERAGE].tobytes() == old["fc0/W"].tobytes()


def test_the_weights_of_the_last_source_are_copied(train, first):
    old = without([AVERAGE, "EMA/updates"], train("old", callbacks=[EMA(0.9)]))
    begin = first()
    more = {"fc0/W": old["fc0/W"] + 1}
    train("new", callbacks=[EMA(0.9), begin], session_init=SmartInit([old, more]))
    assert begin.values["fc0/W" + AVERAGE].tobytes() == (old["fc0/W"] + 1).tobytes()
