"""Trainings in Tensorpack's style: made without a configuration, in the default graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MODEL = """
import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.tfutils.summary import add_moving_summary


class Model(ModelDesc):
    def inputs(self):
        return [tf.placeholder(tf.float32, [None, 2], 'x'), tf.TensorSpec([None], tf.float32, 'y')]

    def build_graph(self, x, y):
        w = tf.get_variable('w', [2], initializer=tf.ones_initializer())
        error = tf.reduce_sum(x * w, 1) - y
        cost = tf.reduce_mean(error ** 2, name='cost')
        tf.identity(cost, name='twice')
        add_moving_summary(cost)
        add_moving_summary(tf.identity(cost, name='last'), decay=0)
        return cost

    def optimizer(self):
        rate = tf.get_variable('learning_rate', initializer=0.1, trainable=False)
        return tf.train.GradientDescentOptimizer(rate)


def flow(number=8):
    points = [[np.array([k, 1], 'uint8'), 2. * k] for k in range(number)]
    return BatchData(DataFromList(points, shuffle=False), 4)
"""


def run(python, tmp_path: Path, program: str, status: int = 0) -> str:
    (tmp_path / "train.py").write_text(MODEL + program)
    return python("-m", "towerpack_compat", "run", "train.py", status=status)


@pytest.mark.slow
def test_a_configuration_that_changes_trains_with_files_where_they_were(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
logger.auto_set_dir()
config = TrainConfig(
    model=Model(), dataflow=flow(), max_epoch=2, steps_per_epoch=3,
    callbacks=[ModelSaver(), InferenceRunner(flow(), [ScalarStats('twice')]), MinSaver('validation_twice'),
               TensorPrinter(['twice', 'y:0']),
               ScheduledHyperParamSetter('learning_rate', [(1, 0.01)])],
)
config.callbacks.append(PeriodicTrigger(ModelSaver(), every_k_steps=100))
config.session_init = SmartInit({'w': np.array([1., 2.], 'float32')})
launch_train_with_config(config, SimpleTrainer())
""",
    )
    folder = tmp_path / "train_log" / "train"
    stats = json.loads((folder / "stats.json").read_text())
    assert [row["epoch_num"] for row in stats if "validation_twice" in row] == [1, 2]
    assert stats[-1]["global_step"] == 6
    assert (folder / "model-6.index").exists() and (folder / "checkpoint").exists()
    assert (folder / "min-validation_twice.index").exists()
    assert list(folder.glob("events.out.tfevents.*")) and (folder / "log.log").exists()
    assert "learning_rate changes from" in printed or "learning_rate is set to 0.010000" in printed
    assert float(printed.rpartition("twice:0: ")[2].split()[0]) == pytest.approx(stats[-1]["last"])
    assert printed.count("INFO twice:0: ") == 6 and "INFO y:0: [0. 2. 4. 6.]" in printed


@pytest.mark.long
@pytest.mark.slow
def test_gradients_are_summed_where_average_is_false(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
for average in (True, False):
    with tf.Graph().as_default():
        trainer = SyncMultiGPUTrainerReplicated(2, average=average)
        one = BatchData(DataFromList([[[1., 0.], 3.]] * 8, shuffle=False), 4)
        trainer.setup_graph(Model().get_input_signature(), QueueInput(one), Model().build_graph,
                            lambda: tf.train.GradientDescentOptimizer(0.1))
        class Print(Callback):
            def _after_train(self):
                print('average', average, self.trainer.sess.run(tf.trainable_variables()[0])[0])
        trainer.train_with_defaults(callbacks=[Print()], steps_per_epoch=1, max_epoch=1, monitors=[])
""",
    )
    # The gradient of each tower is 2 * (1 - 3) * 1 = -4.
    assert "average True 1.4" in printed
    assert "average False 1.8" in printed


@pytest.mark.long
@pytest.mark.slow
def test_a_trainer_of_the_program_builds_its_towers_itself(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.tfutils.tower import TowerContext, TowerFunc


class Alternate(TowerTrainer):
    def __init__(self, input, model):
        super(Alternate, self).__init__()
        self.register_callback(input.setup(model.get_input_signature()))
        self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
        with TowerContext('', is_training=True):
            cost = self.tower_func(*input.get_input_tensors())
        self.train_op = model.get_optimizer().minimize(cost)
        self.counts = 0

    def run_step(self):
        if self.global_step % 2 == 0:
            self.counts += 1
        self.hooked_sess.run(self.train_op)


class Predict(Callback):
    def _setup_graph(self):
        self.predict = self.trainer.get_predictor(['x', 'y'], ['twice'])

    def _trigger(self):
        print('predicted', self.predict([[1., 1.]], [0.])[0].shape, self.trainer.counts)


Alternate(QueueInput(flow()), Model()).train_with_defaults(
    callbacks=[Predict()], steps_per_epoch=4, max_epoch=1, monitors=[])
""",
    )
    assert "predicted () 2" in printed


@pytest.mark.long
@pytest.mark.slow
def test_a_dry_run_cuts_the_training(python, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        MODEL
        + """
logger.set_logger_dir('log')
launch_train_with_config(
    TrainConfig(model=Model(), dataflow=flow(), max_epoch=50, steps_per_epoch=1000), SimpleTrainer())
"""
    )
    python("-m", "towerpack_compat", "run", "--dry-run", "2", "train.py")
    assert json.loads((tmp_path / "log" / "stats.json").read_text())[-1]["global_step"] == 2


@pytest.mark.long
@pytest.mark.slow
def test_names_of_layers_follow_the_rules_of_tensorpack(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack.tfutils.sesscreate import NewSessionCreator
from tensorpack.tfutils.tower import TowerContext


@layer_register(log_shape=True)
def GroupNorm(x, factor=2.):
    return x * factor


@layer_register(log_shape=True)
@auto_reuse_variable_scope
def head(x, units):
    return FullyConnected('fc', x, units)


with TowerContext('', is_training=True), argscope(GroupNorm, factor=3.):
    x = tf.ones([2, 4])
    first, second = head('rpn', x, 3), head('rpn', 2 * x, 3)
    own = LinearWrap(x).GroupNorm('own')()
    x = Dropout('drop', Dropout('drop', x, rate=0.), rate=0.)
    print('variables', [variable.name for variable in tf.global_variables()])
    try:
        FullyConnected('rpn/fc', x, 3)
    except ValueError as error:
        print('refused', 'already exists' in str(error))
with NewSessionCreator().create_session() as sess:
    a, b, c = sess.run([first, second, own])
    print('shared', np.allclose(2 * a, b), 'own', c[0, 0])
""",
    )
    assert "variables ['rpn/fc/W:0', 'rpn/fc/b:0']" in printed
    assert "refused True" in printed
    assert "shared True own 3.0" in printed


@pytest.mark.slow
def test_all_towers_evaluate_and_normalize_together(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.tfutils.summary import add_param_summary, add_tensor_summary

logger.set_logger_dir('log')


class Normalized(Model):
    def build_graph(self, x, y):
        cost = super(Normalized, self).build_graph(x, y)
        BatchNorm('bn', x, sync_statistics='nccl')
        add_param_summary(('w', ['rms']), ('bn.*', ['mean']))
        for only in (True, False):
            add_tensor_summary(y, ['mean'], 'y', collections=['mine'], main_tower_only=only)
        return cost


class Collect(Inferencer):
    def _before_inference(self):
        self.found = []

    def _get_fetches(self):
        return ['x']

    def _on_fetches(self, results):
        self.found.append(int(results[0][0, 0]))

    def _after_inference(self):
        print('evaluated', sorted(self.found))


class Print(Callback):
    def _setup_graph(self):
        towers = {t.op.inputs[1].name.split('/')[0] for t in tf.get_collection('mine')}
        print('summaries of', sorted(towers), len(tf.get_collection('mine')))

    def _after_train(self):
        mean = [v for v in tf.global_variables() if v.name == 'bn/mean/EMA:0'][0]
        print('moved', 10 * self.trainer.sess.run(mean)[0])
        print('runs', runs)


def evaluate(number):
    return BatchData(DataFromList([[[float(k), 1.], 2. * k] for k in range(number)], shuffle=False), 1)


runs = []
runner = DataParallelInferenceRunner(evaluate(5), Collect(), [0, 1])
before = runner._runs
runner._runs = lambda: [runs.append(count) or count for count in before()]
data = BatchData(DataFromList([[[float(k), 1.], 0.] for k in range(8)], shuffle=False), 4)
launch_train_with_config(
    TrainConfig(model=Normalized(), data=QueueInput(data), max_epoch=1, steps_per_epoch=1,
                callbacks=[runner, Print(), CheckNumerics(run_as_trigger=False, run_step=True)]),
    SyncMultiGPUTrainerReplicated(2))
names = JSONWriter.load_existing_json()[-1]
print('named', sorted(name[len('param-summary/'):] for name in names if name.startswith('param-summary/')))
""",
    )
    assert "evaluated [0, 1, 2, 3, 4]" in printed
    assert "runs [2, 2, 1]" in printed
    # The mean of both towers' batches, 0 to 7, where that of one tower would be 1.5 or 5.5.
    assert "moved 3.5" in printed
    assert "named ['bn/beta-mean', 'bn/gamma-mean', 'w-rms']" in printed


@pytest.mark.long
@pytest.mark.slow
def test_inputs_come_from_the_queue_and_the_threads_of_the_program(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.dataflow.remote import RemoteDataZMQ

made = []


def make():
    made.append(DataFromList([[np.array([k, 1.], 'float32'), float(k)] for k in range(4)], shuffle=False))
    return made[-1]


flow = MultiThreadRunner(make, 10, 2)
flow.reset_state()
passes = [[point[1] for point in flow] for _ in range(2)]
print('threads', len(made), len(flow), passes)
queue = tf.RandomShuffleQueue(100, 0, [tf.float32, tf.float32], [[2], []])
source = BatchQueueInput(make(), 2, queue=queue)
[callback] = source.setup([tf.TensorSpec([None, 2], tf.float32, 'x'), tf.TensorSpec([None], tf.float32, 'y')])
x, _ = source.get_input_tensors()
operations = tf.get_default_graph().get_operations()
taken = [op.inputs[0].op.name for op in operations if op.type == 'QueueDequeueManyV2']
print('queue', taken == [queue.queue_ref.op.name])
try:
    RemoteDataZMQ('ipc://a', 'ipc://b')
except NotImplementedError as error:
    print(error)
numbers = tf.train.range_input_producer(5, shuffle=False).dequeue()
w = tf.get_variable('sum', initializer=0, trainable=False)
class Print(Callback):
    def _after_train(self):
        print('summed', self.trainer.sess.run(w))
trainer = TowerTrainer()
trainer.train_op = w.assign_add(numbers).op
trainer.train_with_defaults(callbacks=[Print()], steps_per_epoch=5, max_epoch=1, monitors=[])
with tf.Graph().as_default():
    tf.get_variable('bad', initializer=float('nan'))
    check = CheckNumerics(run_as_trigger=False, run_step=True)
    trainer = TowerTrainer()
    trainer.train_op = tf.no_op()
    try:
        trainer.train_with_defaults(callbacks=[check], steps_per_epoch=1, max_epoch=1, monitors=[])
    except tf.errors.InvalidArgumentError as error:
        print('found', 'NaN' in str(error))
""",
    )
    assert "threads 2 4 [[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]" in printed
    assert "queue True" in printed
    assert "summed 10" in printed
    assert "RemoteDataZMQ(addr2=...) has no counterpart" in printed
    assert "found True" in printed


@pytest.mark.long
@pytest.mark.slow
def test_a_model_of_an_older_release_reads_a_flow_through_a_dataset(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
class Older(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.uint8, [None, 2], 'x'), InputDesc(tf.float64, (None,), 'y')]

    def _build_graph(self, inputs):
        x, y = inputs
        assert x.shape.as_list() == [None, 2]
        self.cost = Model().build_graph(tf.cast(x, tf.float32), tf.cast(y, tf.float32))

    def _get_optimizer(self):
        return Model().optimizer()

class Row(Callback):
    def _after_train(self):
        print('weights:', self.trainer.sess.run(tf.trainable_variables()[0]).tolist())

def rows():
    return MapData(flow(), lambda dp: [dp[0], dp[1].astype('float64')])

source = TFDatasetInput(RepeatedData(rows(), -1))
config = TrainConfig(model=Older(), data=source, callbacks=[Row()], steps_per_epoch=1, max_epoch=1)
launch_train_with_config(config, SimpleTrainer())
""",
    )
    # The first batch has x = (k, 1) and y = 2 k for k < 4: the errors are 1 - k, and the rate is 0.1.
    expected = [
        1 - 0.1 * sum(2 * (1 - k) * k for k in range(4)) / 4,
        1 - 0.1 * sum(2 * (1 - k) for k in range(4)) / 4,
    ]
    values = json.loads(printed.split("weights:", 1)[1].splitlines()[0])
    assert values == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_towers_share_variables_and_those_of_predictions_make_none(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.graph_builder import DataParallelBuilder
from tensorpack.graph_builder.utils import LeastLoadedDeviceSetter
from tensorpack.tfutils.tower import PredictTowerContext, TowerContext

devices = ['/cpu:0', '/cpu:1']


def tower():
    w = tf.get_variable('w', [3, 4], initializer=tf.ones_initializer())
    return tf.reduce_sum(w, name='sum'), w


places = [LeastLoadedDeviceSetter(device, devices) for device in devices]
(first, w), (second, again) = DataParallelBuilder.call_for_each_tower([0, 1], tower, places)
print('towers', first.op.name, second.op.name, w is again, w.device[-5:].lower())
with tf.variable_scope(tf.get_variable_scope(), reuse=True):
    with PredictTowerContext('shared') as tower:
        print('own', tower.has_own_variables, len(tf.trainable_variables()))
    try:
        with TowerContext('evaluation', is_training=False):
            tf.keras.layers.Dense(1, name='dense')(tf.ones([1, 2]))
    except AssertionError as error:
        print(error)
""",
    )
    assert "towers tower0/sum tower1/sum True cpu:0" in printed
    assert "own False 1" in printed
    assert "created in evaluation: evaluation/dense/kernel, evaluation/dense/bias. Make a" in printed


@pytest.mark.slow
def test_a_trainer_and_an_optimizer_of_the_program_train(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
from tensorpack.graph_builder import SyncMultiGPUReplicatedBuilder
from tensorpack.tfutils.optimizer import ProxyOptimizer
from tensorpack.tfutils.tower import TowerContext


class Doubled(ProxyOptimizer):
    def __init__(self, opt):
        super(Doubled, self).__init__(opt, 'Doubled')

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return self._opt.apply_gradients([(2 * g, v) for g, v in grads_and_vars], global_step, name)


class Mine(SingleCostTrainer):
    def _setup_graph(self, input, get_cost_fn, get_opt_fn):
        with TowerContext('', is_training=True):
            gradients = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
        self.train_op = get_opt_fn().apply_gradients(gradients, name='train_op')
        return []


class Once(Model):
    def optimizer(self):
        return Doubled(super(Once, self).optimizer())


class Print(Callback):
    def _after_train(self):
        print('w', self.trainer.sess.run('w:0'))


one = BatchData(DataFromList([[[1., 0.], 3.]] * 4, shuffle=False), 4)
launch_train_with_config(
    TrainConfig(model=Once(), dataflow=one, max_epoch=1, steps_per_epoch=1, extra_callbacks=[],
                callbacks=[Print(), RunOp(lambda: tf.no_op()).set_chief_only(False)]), Mine())
try:
    SyncMultiGPUReplicatedBuilder([0, 1], True, 'cpu')
except NotImplementedError as error:
    print(error)
""",
    )
    assert "w [1.8 1. ]" in printed  # 1 + 2 * 0.1 * 2 * (3 - 1)
    assert "SyncMultiGPUReplicatedBuilder(towers=...) has no counterpart" in printed


@pytest.mark.slow
def test_a_subclass_may_override_the_phases_of_a_training(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
class Mine(SimpleTrainer):
    def setup_callbacks(self, callbacks, monitors):
        super(Mine, self).setup_callbacks(callbacks + [Tell()], monitors)

    def initialize(self, session_creator, session_init):
        super(Mine, self).initialize(session_creator, SmartInit({'w': np.array([1., 2.], 'float32')}))

    def main_loop(self, steps_per_epoch, starting_epoch, max_epoch):
        super(Mine, self).main_loop(1, starting_epoch, 1)


class Tell(Callback):
    def _before_train(self):
        print('starts at', self.trainer.sess.run('w:0'))

    def _trigger_step(self):
        print('step', self.global_step)


class Ones(FeedfreeInput):
    def _setup(self, signature):
        print('inputs', [spec.name for spec in signature])

    def _get_input_tensors(self):
        return [tf.ones([4, 2]), tf.ones([4])]

    def _get_callbacks(self):
        return [Tell()]

    def _size(self):
        return 7


class Queue(QueueInput):
    def _get_input_tensors(self):
        return [tensor + 1 for tensor in super(Queue, self)._get_input_tensors()]


launch_train_with_config(TrainConfig(model=Model(), dataflow=flow(), max_epoch=5), Mine())
for source in (Ones(), Queue(flow())):
    with tf.Graph().as_default():
        print('size', source.size())
        config = TrainConfig(model=Model(), data=source, steps_per_epoch=1, max_epoch=1)
        launch_train_with_config(config, SimpleTrainer())
class Hooks(SimpleTrainer):
    def initialize_hooks(self):
        pass
Hooks()
""",
        status=1,
    )
    assert "starts at [1. 2.]\nstep 1\n" in printed and "step 2" not in printed
    assert "size 7\n" in printed and "inputs ['x', 'y']\n" in printed and "starts at [1. 1.]\n" in printed
    assert "size 2\n" in printed
    assert "error: A trainer's initialize_hooks would never be called." in printed


@pytest.mark.slow
def test_events_and_images_reach_monitors_and_the_file_for_tensorboard(python, tmp_path: Path) -> None:
    printed = run(
        python,
        tmp_path,
        """
import glob


class Put(Callback):
    def _trigger(self):
        self.trainer.monitors.put_event(tf.Event(session_log=tf.SessionLog(status=tf.SessionLog.STOP)))
        for shape in [(8, 6), (8, 6, 3), (2, 8, 6), (2, 8, 6, 1)]:
            self.trainer.monitors.put_image('images', np.zeros(shape, np.uint8))


class Print(MonitorBase):
    def process_event(self, evt):
        print('received event of step', evt.step)

    def process_image(self, name, val):
        print('received', name, val.shape)


logger.set_logger_dir('log')
launch_train_with_config(
    TrainConfig(model=Model(), dataflow=flow(), callbacks=[Put()], max_epoch=1,
                monitors=[TFEventWriter(), Print()]), SimpleTrainer())
for event in tf.train.summary_iterator(glob.glob('log/events*')[0]):
    if event.HasField('session_log'):
        print('event of step', event.step, event.wall_time > 0)
    for value in event.summary.value:
        if value.HasField('image'):
            print(value.tag, value.image.height, value.image.colorspace)
""",
    )
    assert "event of step 2 True" in printed and "received event of step 2" in printed
    for shape in ["(1, 8, 6, 1)", "(1, 8, 6, 3)", "(2, 8, 6, 1)"]:
        assert f"received images {shape}" in printed
    assert printed.count("images/1 8 1") == 2 and "images 8 3" in printed
