"""Q-learning with a memory: an agent that is shown a digit and rewarded for its name."""
from collections import deque
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import *
from tensorpack.utils.argtools import memoized
from tensorpack.utils.stats import StatCounter

MEMORY_SIZE = 2000
BATCH_SIZE = 32
GAMMA = 0.0
NUM_ACTIONS = 10
STEPS_PER_EPOCH = 200


class Guessing(object):
    """Shows a digit; the action is a guess."""

    def __init__(self):
        digits = load_digits()
        self.images = (digits.data / 16.).astype('float32')
        self.labels = digits.target
        self.rng = np.random.RandomState(1)
        self.now = 0

    def current(self):
        return self.images[self.now]

    def step(self, action):
        reward = float(action == self.labels[self.now])
        self.now = self.rng.randint(len(self.images))
        return reward


class ExpReplay(DataFlow, Callback):
    """A memory that is filled by the predictor between the steps."""

    def __init__(self, player):
        self.player = player
        self.mem = deque(maxlen=MEMORY_SIZE)
        self.exploration = 1.0
        self.scores = StatCounter()
        self.random = np.random.RandomState(2)

    def _setup_graph(self):
        self.predictor = self.trainer.get_predictor(['state'], ['Qvalue'])

    def _act(self):
        state = self.player.current()
        if self.random.rand() < self.exploration:
            action = self.random.randint(NUM_ACTIONS)
        else:
            action = np.argmax(self.predictor(state[None])[0][0])
        reward = self.player.step(action)
        self.scores.feed(reward)
        self.mem.append((state, action, reward))

    def _before_train(self):
        while len(self.mem) < 500:
            self._act()

    def _trigger_step(self):
        for _ in range(4):
            self._act()

    def _trigger_epoch(self):
        self.exploration = max(self.exploration - 0.4, 0.1)
        self.trainer.monitors.put_scalar('expreplay/mean_score', self.scores.average)
        self.scores.reset()

    def get_data(self):
        rng = np.random.RandomState(3)
        while True:
            if len(self.mem) < BATCH_SIZE:
                for _ in range(BATCH_SIZE):
                    self.mem.append((self.player.current(), 0, 0.0))
            batch = [self.mem[k] for k in rng.randint(len(self.mem), size=BATCH_SIZE)]
            state, action, reward = zip(*batch)
            yield [np.stack(state), np.array(action, 'int32'), np.array(reward, 'float32')]


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, (None, 64), 'state'),
                InputDesc(tf.int32, (None,), 'action'),
                InputDesc(tf.float32, (None,), 'reward')]

    def build_graph(self, state, action, reward):
        l = FullyConnected('fc0', state, 64, activation=tf.nn.relu)
        q = FullyConnected('fct', l, NUM_ACTIONS)
        q = tf.identity(q, name='Qvalue')
        chosen = tf.reduce_sum(q * tf.one_hot(action, NUM_ACTIONS), 1)
        cost = tf.losses.huber_loss(reward, chosen, reduction=tf.losses.Reduction.MEAN)
        cost = tf.identity(cost, name='cost')
        summary.add_moving_summary(cost)
        return cost

    def _get_optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=2e-3, trainable=False)
        opt = tf.train.AdamOptimizer(lr)
        return optimizer.apply_grad_processors(
            opt, [gradproc.GlobalNormClip(10), gradproc.SummaryGradient()])


if __name__ == '__main__':
    logger.auto_set_dir()
    expreplay = ExpReplay(Guessing())
    config = AutoResumeTrainConfig(
        model=Model(),
        dataflow=expreplay,
        callbacks=[
            ModelSaver(),
            expreplay,
            PeriodicTrigger(RunOp(lambda: tf.no_op(name='sync'), verbose=True), every_k_steps=100),
            HumanHyperParamSetter('learning_rate'),
        ],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=3,
    )
    launch_train_with_config(config, SimpleTrainer())
