"""Simulators act during learning, and any failure ends both."""

import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from towerpack_callbacks import Callback
from towerpack_trainers import ConfigError, TrainConfig
from towerpack_trainers.rl import BatchA3CTrainer
from towerpack_trainers.rl._batch_a3c import TrajectoryFlow, Unroll

pytestmark = pytest.mark.timeout(180)


class WalkSimulators:
    """Simulators in a thread, each with some walks."""

    def __init__(self, walks, counts=(2, 3), fails_at=None):
        ends = np.cumsum(counts).tolist()
        self.simulators = [range(end - count, end) for end, count in zip(ends, counts)]
        self.num_envs = ends[-1]
        self._envs = [walks(count) for count in counts]
        self.single_observation_space = self._envs[0].single_observation_space
        self.single_action_space = self._envs[0].single_action_space
        self._fails_at, self._orders, self._thread, self.frames = fails_at, queue.Queue(), None, 0

    def start(self, hooks):
        self._hooks = hooks
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def send(self, simulator, actions):
        self._orders.put((simulator, actions))

    def close(self):
        self._orders.put(None)
        if self._thread is not None:
            self._thread.join()

    @property
    def running(self):
        return self._thread is not None and self._thread.is_alive()

    def _run(self):
        try:
            for number, envs in enumerate(self._envs):
                count = envs.num_envs
                nothing = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
                self._tell(number, envs.reset(seed=number)[0], *nothing, np.ones(count, bool))
            while (order := self._orders.get()) is not None:
                number, actions = order
                envs = self._envs[number]
                before = envs._ended.copy()
                observation, reward, terminated, truncated, _ = envs.step(actions)
                if envs.steps == self._fails_at:
                    raise OSError(f"simulator {number} has gone")
                self._tell(number, observation, reward, terminated, truncated, before)
        except OSError as error:
            self._hooks.on_error(error)

    def _tell(self, number, observation, reward, terminated, truncated, before):
        self.frames += int((~before).sum())
        for row in np.flatnonzero(terminated | truncated):
            self._hooks.on_episode_over(SimpleNamespace(total=float(observation[row, 0] == 1), length=3))
        self._hooks.on_states(
            SimpleNamespace(
                simulator=number,
                environments=self.simulators[number],
                observation=observation,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                valid=~before,
            )
        )


class Watch(Callback):
    """Records statistics and counters."""

    def _before_train(self):
        self.returns, self.shares = [], {}

    def _trigger_epoch(self):
        monitors = self.trainer.monitors
        self.returns.append(monitors.get_latest("mean_return"))
        self.shares = {name: monitors.get_latest(f"{name}_share") for name in ("environment", "inference")}
        self.shares["frames"] = monitors.get_latest("frames_per_second")

    def _after_train(self):
        self.learned_from = self.trainer.loop.env_steps


def train(simulators, model, epochs=8, **options):
    watch = Watch()
    config = TrainConfig(
        model=model, callbacks=[watch], steps_per_epoch=25, max_epoch=epochs, log_dir=None, seed=1
    )
    BatchA3CTrainer(config, simulators, **{"steps": 6, **options}).train()
    return watch


@pytest.mark.slow
def test_it_learns_and_ends_the_simulators(walks, walker):
    simulators = WalkSimulators(walks)
    watch = train(simulators, walker.of(simulators), batch_size=4, predictors=2)
    assert not simulators.running
    assert not [thread for thread in threading.enumerate() if "Predictor" in thread.name]
    assert watch.returns[-1] > 0.9  # a random policy has 0.5
    assert 0 < watch.learned_from <= simulators.frames
    assert watch.learned_from >= 0.6 * 8 * 25 * 4 * 6  # the steps used for learning, except for resets
    assert watch.shares["frames"] > 0
    assert 0 < watch.shares["environment"] + watch.shares["inference"] < 1.5


@pytest.mark.slow
def test_the_error_of_a_simulator_ends_the_training(walks, walker):
    simulators = WalkSimulators(walks, fails_at=100)
    with pytest.raises(OSError, match=r"simulator \d has gone"):
        train(simulators, walker.of(simulators))
    assert not simulators.running


@pytest.mark.slow
def test_an_error_while_answering_predictions_ends_the_training(walks, walker):
    simulators = WalkSimulators(walks)
    simulators.send = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        train(simulators, walker.of(simulators))
    assert not simulators.running


@pytest.mark.slow
def test_the_error_that_ended_the_simulators_is_raised(walks, walker):
    class Gone(WalkSimulators):
        running = False  # visible to senders before the error is reported

        def send(self, simulator, actions):
            threading.Timer(0.1, super().send, (simulator, actions)).start()
            raise RuntimeError("there are no simulators any more")

    simulators = Gone(walks, fails_at=1)
    with pytest.raises(OSError, match=r"simulator \d has gone"):
        train(simulators, walker.of(simulators))


def test_invalid_arguments(walks, walker):
    simulators = WalkSimulators(walks)
    with pytest.raises(ConfigError, match=r"BatchA3CTrainer needs TrainConfig\(model=a PolicyModel\)"):
        BatchA3CTrainer(TrainConfig(log_dir=None, steps_per_epoch=1), simulators)
    for name in ("steps", "batch_size", "predictors", "prediction_batch"):
        with pytest.raises(ConfigError, match=f"BatchA3CTrainer.*{name}"):
            train(simulators, walker.of(simulators), **{name: 0})
    assert not simulators.running


def test_an_unroll_collects_steps_and_continues_with_the_last_observation():
    unroll = Unroll(2, 3, (np.float32, (1,)), (np.int64, ()))
    complete = []
    for step in range(7):
        unroll.end_step(np.full(2, 10 * step), np.full(2, step == 3), np.full(2, step != 4))
        complete += unroll.observe(np.float32([[step], [100 + step]]))
        unroll.act(np.full(2, step), np.full(2, -step))
    assert len(complete) == 4
    observation, action, log_probability, reward, terminated, valid = complete[3]
    assert observation[:, 0].tolist() == [103, 104, 105, 106]
    assert action.tolist() == [3, 4, 5] and log_probability.tolist() == [-3, -4, -5]
    assert reward.tolist() == [40, 50, 60] and not terminated.any() and valid.tolist() == [False, True, True]
    assert complete[0][4].tolist() == [False, False, True]
    assert complete[0][0][:, 0].tolist() == [0, 1, 2, 3]  # later steps have not written to it


def test_a_flow_of_trajectories_batches_waits_and_ends():
    flow = TrajectoryFlow(batch_size=2, capacity=2)
    trajectory = [np.zeros((3, 1)), np.zeros(2)]
    flow.put([trajectory] * 3)
    batches = iter(flow)
    observation, action = next(batches)
    assert observation.shape == (6, 1) and action.shape == (2, 2)
    flow.put([trajectory] * 3)
    waiting = threading.Thread(target=flow.put, args=([trajectory],))
    waiting.start()  # there is no room
    next(batches)
    waiting.join(10)
    assert not waiting.is_alive()
    flow.fail(ValueError("first"))
    flow.fail(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        next(batches)
    flow.put([trajectory] * 9)  # a writer is no longer blocked
    flow.put([trajectory])
    flow.close()
    assert list(flow) == []
