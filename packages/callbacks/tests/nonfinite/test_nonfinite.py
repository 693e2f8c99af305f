"""A value that is not finite stops the training before it reaches the weights, and its origin is found."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, NonFiniteError, TerminateOnNaN, as_session_hooks, nonfinite
from towerpack_callbacks.nonfinite import replay
from towerpack_callbacks.nonfinite.__main__ import main


class Model:
    """Trains `w` by a cost that a function makes of a batch, `w` and the number of finished steps."""

    def __init__(self, make_cost, log_dir, optimizer=None, threads=0):
        self.graph = tf.Graph()
        self.log_dir = log_dir
        self.config = tf.ConfigProto(inter_op_parallelism_threads=threads)
        with self.graph.as_default():
            step = tf.cast(tf.train.get_or_create_global_step(), tf.float32)
            batch = tf.random.uniform([8], 1.0, 2.0, name="batch")
            weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
            cost = tf.identity(make_cost(batch, weight, step), name="cost")
            optimizer = tf.train.MomentumOptimizer(0.01, 0.9) if optimizer is None else optimizer
            self.train_op = optimizer.minimize(cost)
            self.variables = tf.global_variables()

    def train(self, callback=None):
        """Returns all variables after each step that went well, and the error."""
        values, error = [], None
        with self.graph.as_default():
            callback = TerminateOnNaN() if callback is None else callback
            hooks = as_session_hooks(
                [callback], steps_per_epoch=5, max_epoch=2, log_dir=self.log_dir, monitors=[]
            )
            creator = tf.train.ChiefSessionCreator(config=self.config)
            try:
                with tf.train.MonitoredSession(creator, hooks) as sess:
                    raw = sess._tf_sess()
                    while not sess.should_stop():
                        values.append(raw.run(self.variables))
                        try:
                            sess.run(self.train_op)
                        finally:
                            after = raw.run(self.variables)
            except NonFiniteError as caught:
                error = caught
            values.append(after)
        return values, error


def log_of_negative(batch, weight, step):
    shrinking = 2.5 - step
    return tf.reduce_mean(tf.log(shrinking * weight * batch, name="the_log"))


def log_of_denormal(batch, weight, step):
    """A denormal number, which TensorFlow's threads flush to zero."""
    small = tf.where(step < 2.5, 1.0, 1e-20)
    return tf.reduce_mean(tf.log(small * weight * (small * batch), name="the_log"))


def square_root_of_zero(batch, weight, step):
    """Finite itself; its gradient is not."""
    return tf.reduce_mean(tf.sqrt(tf.maximum(0.0, 2.5 - step) * weight * batch, name="the_root"))


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize(
    ("make_cost", "origin", "kind"),
    [
        (log_of_negative, "the_log", "Log"),
        (square_root_of_zero, r"gradients/the_root_grad/SqrtGrad", "SqrtGrad"),
    ],
)
def test_the_first_op_is_named(tmp_path, make_cost, origin, kind, threads):
    values, error = Model(make_cost, tmp_path, threads=threads).train()
    assert re.search(
        rf"In step 4 .* op that made it is '{origin}' \({kind}\): .* float32\[8\] with (8 NaN|0 NaN and 8)",
        str(error),
        re.DOTALL,
    )
    # Steps 1 to 3 went well, and after the fourth all is as it was.
    assert len(values) == 5
    for before, after in zip(values[3], values[4]):
        np.testing.assert_array_equal(before, after)


def test_the_line_of_the_model_and_the_inputs_are_reported(tmp_path):
    _, error = Model(square_root_of_zero, tmp_path).train()
    assert re.search(r"gradient of 'the_root'\n  made at .*: return tf.reduce_mean\(tf.sqrt", str(error))
    _, error = Model(log_of_negative, tmp_path).train()
    assert re.search(r"from mul_?\d*:0 float32\[8\] between -\d.\d* and -\d", str(error))
    assert re.search(
        r'made at .*test_nonfinite.py:\d+: return tf.reduce_mean\(tf.log\(.* name="the_log"\)\)', str(error)
    )


def test_values_that_go_nowhere_do_not_count(tmp_path):
    def make_cost(batch, weight, step):
        never = tf.where(batch > 0, batch, tf.log(batch * 0.0, name="unused"))
        return tf.reduce_mean(weight * never) + tf.log(2.5 - step, name="the_log")

    _, error = Model(make_cost, tmp_path).train()
    assert "In step 4" in str(error) and "'the_log'" in str(error)


def test_values_from_the_batch(tmp_path):
    def make_cost(batch, weight, step):
        read = tf.numpy_function(lambda at: np.float32([1, np.nan if at > 1 else 2]), [step], tf.float32)
        return tf.reduce_sum(weight * tf.ensure_shape(read, [2]))

    _, error = Model(make_cost, tmp_path).train()
    assert re.search(r"In step 3.*It came with the input: \S+ float32\[2\] with 1 NaN", str(error), re.DOTALL)


def test_values_from_a_variable(tmp_path):
    def make_cost(batch, weight, step):
        broken = tf.get_variable("broken", [2], initializer=tf.constant_initializer([1.0, np.inf]))
        return tf.reduce_mean(batch * weight) + tf.reduce_sum(broken)

    _, error = Model(make_cost, tmp_path).train()
    assert re.search(
        r"In step 1.*It was in the variable 'broken' before this step: \S+ float32\[2\]", str(error), re.S
    )


def test_statistics_are_not_touched_either(tmp_path):
    def make_cost(batch, weight, step):
        mean = tf.get_variable("mean", [], initializer=tf.zeros_initializer(), trainable=False)
        cost = log_of_negative(batch, weight, step)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(mean, cost))
        return cost

    model = Model(make_cost, tmp_path)
    with model.graph.as_default():
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        model.train_op = tf.group(model.train_op, *updates)
    values, error = model.train()
    assert error is not None
    assert np.isfinite(np.concatenate([np.ravel(value) for value in values[-1]])).all()
    assert [value.tolist() for value in values[-1]] == [value.tolist() for value in values[-2]]


def test_updates_that_the_cost_depends_on_make_no_circle(tmp_path):
    def make_cost(batch, weight, step):
        mean = tf.get_variable("mean", [], initializer=tf.zeros_initializer(), trainable=False)
        update = tf.assign(mean, tf.reduce_mean(batch))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        with tf.control_dependencies([update]):
            return log_of_negative(batch, weight, step)

    values, error = Model(make_cost, tmp_path).train()
    assert len(values) == 5 and "the_log" in str(error)


@pytest.fixture
def folder(tmp_path):
    """The folder of a training that failed in its fourth step."""
    _, error = Model(log_of_negative, tmp_path).train()
    folder = tmp_path / "nonfinite-4"
    assert str(error).endswith(f"Reproduce it with: python -m towerpack_callbacks.nonfinite {folder}")
    return folder


def test_the_folder_fails_again(folder, capsys):
    origin = replay(folder)
    assert (origin.op, origin.kind) == ("the_log", "op")
    report = (folder / "report.txt").read_text()
    # The line of the model is known where the graph was built.
    assert report.startswith(origin.text) and "made at" in report
    assert main([str(folder)]) == 0
    assert "'the_log' (Log)" in capsys.readouterr().out


def test_a_second_run_flushes_denormals_as_the_training_does(tmp_path):
    _, error = Model(log_of_denormal, tmp_path).train()
    origin = replay(tmp_path / "nonfinite-4")
    assert origin.op == "the_log" and origin.text in str(error)


def test_the_folder_holds_batch_and_variables(folder):
    with np.load(folder / "batch.npz") as batch:
        values = dict(batch)
    (name,) = [name for name in values if name.startswith("batch")]
    assert values[name].shape == (8,)
    with np.load(folder / "variables.npz") as variables:
        assert variables["global_step"] == 3 and np.isfinite(variables["w"])


def test_another_batch_may_be_fine(folder, capsys):
    with np.load(folder / "variables.npz") as variables:
        values = dict(variables)
    np.savez(folder / "variables.npz", **{**values, "global_step": np.int64(0)})
    assert replay(folder) is None
    assert main([str(folder)]) == 1
    assert "All values are finite this time" in capsys.readouterr().out


def test_what_is_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        replay(tmp_path)


def test_without_a_log_directory_nothing_is_written():
    _, error = Model(log_of_negative, None).train()
    assert "'the_log'" in str(error) and "Reproduce" not in str(error)


def test_a_disk_that_fails_does_not_hide_the_error(tmp_path):
    (tmp_path / "nonfinite-4").write_text("in the way")
    _, error = Model(log_of_negative, tmp_path).train()
    assert re.search(r"'the_log' [\s\S]*nonfinite-4 for reproducing it could not be written", str(error))


def test_without_an_optimizer_names_are_needed(line):
    line.graph.clear_collection("trainable_variables")
    with pytest.raises(ValueError, match=r"no names were given.*TerminateOnNaN\(\[\"cost\"\]\)"):
        line.run([TerminateOnNaN(names=[])])


def test_named_tensors_alone(line):
    with line.graph.as_default():
        line.graph.clear_collection("trainable_variables")
        step = tf.cast(tf.train.get_global_step(), tf.float32)
        tf.log(2.5 - step, name="checked")
    with pytest.raises(NonFiniteError, match=r"In step 4[\s\S]*'checked' \(Log\)"):
        line.run([TerminateOnNaN(["checked"])])


def test_names_come_in_a_list():
    with pytest.raises(TypeError, match=r"Write \['cost'\]"):
        TerminateOnNaN("cost")


class Last(Callback):
    """Keeps the weight of the end."""

    def _setup_graph(self):
        (self._weight,) = self.trainer.get_tensors(["weight"])

    def _after_train(self):
        self.weight = self.trainer.sess.run(self._weight)


def test_a_training_that_is_well_is_not_disturbed(straight_line, tmp_path):
    last = [Last(), Last()]
    straight_line(tmp_path / "with").run([TerminateOnNaN(), last[0]])
    straight_line(tmp_path / "without").run([last[1]])
    assert last[0].weight == last[1].weight != 0


def test_text_and_short_floats_come_back_as_they_were(tmp_path):
    def make_cost(batch, weight, step):
        scale = tf.get_variable("file", [], tf.bfloat16, tf.ones_initializer(), trainable=False)
        queue = tf.queue.FIFOQueue(10, [tf.string, tf.bfloat16], [[2], []])
        record = np.array([1.5, 0.0], np.float32).tobytes()  # ends with zeros
        enqueue = queue.enqueue([tf.constant([record, record + record]), tf.constant(1.5, tf.bfloat16)])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
        records, factor = queue.dequeue(name="take")
        data = tf.io.decode_raw(records[:1], tf.float32) + tf.cast(scale * factor, tf.float32)
        return tf.reduce_mean(tf.log(data * weight * (2.5 - step), name="the_log"))

    _, error = Model(make_cost, tmp_path).train()
    assert "'the_log' (Log)" in str(error)
    assert replay(tmp_path / "nonfinite-4").op == "the_log"


def test_a_batch_from_a_queue_is_the_one_that_failed(tmp_path):
    """What counts the takes makes the batch wait for the queue, which must not be asked again."""

    def make_cost(batch, weight, step):
        queue = tf.queue.FIFOQueue(10, [tf.float32], [[2]])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([tf.ones([2])])]))
        taken = tf.get_local_variable("taken", [], tf.int64, tf.zeros_initializer())
        data = queue.dequeue(name="take")
        with tf.control_dependencies([data]):
            counted = taken.assign_add(1, read_value=False)
        with tf.control_dependencies([counted]):
            data = tf.identity(data, name="data")
        takes.append(taken)
        return tf.reduce_mean(tf.log(data * weight * (2.5 - step), name="the_log"))

    takes = []
    model = Model(make_cost, tmp_path)
    model.variables = [*model.variables, *takes]
    values, error = model.train()
    assert "'the_log' (Log)" in str(error)
    assert [value[-1] for value in values[:-1]] == [0, 1, 2, 3]
    with np.load(tmp_path / "nonfinite-4" / "batch.npz") as batch:
        np.testing.assert_array_equal(batch["take:0"], [1, 1])
    # There is nothing in the queue of this one, so asking it would hang.
    assert replay(tmp_path / "nonfinite-4").op == "the_log"


def test_the_old_name_of_the_origin_is_deprecated():
    with pytest.warns(
        DeprecationWarning, match=r"nonfinite\.Origin is deprecated; write .*\.NonFiniteOrigin"
    ):
        assert nonfinite.Origin is nonfinite.NonFiniteOrigin
    with pytest.raises(AttributeError, match="no attribute 'Orijin'"):
        _ = nonfinite.Orijin
