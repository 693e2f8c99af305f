"""The configuration of a predictor."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ConfigError, DictRestore, ModelError, OfflinePredictor, PredictConfig

X = np.array([1, 2], np.float32)
DENORMAL = np.float32(1e-39)
SPECS = [tf.TensorSpec([None], tf.float32, "x")]


def line(x):
    slope = tf.get_variable("slope", [], initializer=tf.ones_initializer())
    return tf.multiply(slope, x, name="y")


def config(**changes):
    return PredictConfig(**{"tower_func": line, "input_signature": SPECS, "output_names": ["y"], **changes})


def test_a_function_instead_of_a_model(kit):
    with OfflinePredictor(config(session_init=DictRestore({"slope": np.float32(3)}))) as predict:
        np.testing.assert_array_equal(predict(X)[0], 3 * X)


def test_without_values_the_initializers_count_and_it_warns(caplog):
    with OfflinePredictor(config()) as predict:
        np.testing.assert_array_equal(predict(X)[0], X)
    assert "no session_init: the trainable variables (1, such as slope) keep their initial" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"session_init": DictRestore({"slope": np.float32(3)})},
        {"tower_func": lambda x: tf.add(x, x, name="y")},
    ],
)
def test_trained_values_and_models_without_any_are_not_warned_of(changes, caplog):
    with OfflinePredictor(config(**changes)):
        assert not caplog.text


def test_inputs_are_returned_as_they_were_fed():
    with OfflinePredictor(config(return_input=True)) as predict:
        [fed], [y] = predict([1, 2])
    assert fed.dtype == np.float32
    np.testing.assert_array_equal(fed, X)
    np.testing.assert_array_equal(y, X)


def test_graph_and_session_can_be_used():
    with OfflinePredictor(config()) as predict:
        assert predict.session is predict.sess
        assert predict.sess.graph is predict.graph and predict.graph.finalized
        assert predict.sess.run("slope/Read/ReadVariableOp:0") == 1


def test_session_options_are_used_unchanged():
    options = tf.ConfigProto(device_count={"CPU": 3})
    with OfflinePredictor(config(session_config=options)) as predict:
        assert len(predict.sess.list_devices()) == 3


def test_results_in_the_calling_thread_are_equal():
    x = np.append(X, DENORMAL)
    with OfflinePredictor(config()) as predict:
        np.testing.assert_array_equal(predict(x)[0], [1, 2, 0])
        np.testing.assert_array_equal(predict.in_calling_thread()(x)[0], [1, 2, 0])


def test_a_call_in_the_calling_thread_changes_no_arithmetic_of_that_thread():
    def root(x):
        return tf.debugging.check_numerics(tf.sqrt(x), "not a number", name="y")

    with OfflinePredictor(config(tower_func=root)) as predict:
        call = predict.in_calling_thread()
        call(X)
        assert DENORMAL / 2 > 0
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
            call(-X)
        assert DENORMAL / 2 > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tower_func": None, "input_signature": None}, r"either model=.* or tower_func=.* received neither"),
        ({"input_signature": None}, r"belong together; received tower_func=<function line"),
        ({"tower_func": 3}, r"received 3 of type int; expected a function of one tensor per input"),
        ({"ema": True}, r"ema=True\) takes averages from a checkpoint, but received no session_init"),
        ({"ema": "yes"}, r"ema=...\) received 'yes' of type str; expected True or False"),
        ({"return_input": 1}, r"return_input=...\) received 1 of type int; expected True or False"),
        (
            {"session_config": {}},
            r"session_config=...\) received \{\} of type dict; expected a tf.ConfigProto",
        ),
    ],
    ids=["neither", "no signature", "no function", "no averages", "ema", "return_input", "options"],
)
def test_wrong_arguments(changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)


def test_a_model_and_a_function_exclude_each_other(kit):
    with pytest.raises(ConfigError, match="received both"):
        config(model=kit.Line())


def test_a_wrong_signature():
    with pytest.raises(ModelError, match="received an element 'x'"):
        OfflinePredictor(config(input_signature=["x"]))
