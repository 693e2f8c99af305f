"""Agents that learn from a memory: they learn, on one device or two, and resume exactly."""

import shutil

import numpy as np
import pytest

from towerpack_callbacks import Callback, ModelSaver
from towerpack_callbacks.checkpoint import read_checkpoint, write_checkpoint
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling
from towerpack_trainers import (
    ConfigError,
    DictRestore,
    EnvironmentStepError,
    SaverRestore,
    SmartInit,
    TrainConfig,
)
from towerpack_trainers.rl import DoubleQ, DQNTrainer, LinearEpsilon, TargetAverage, TargetCopy


def prioritized():
    return PrioritizedSampling(seed=5)


class StopsSoon(Callback):
    """Fails at a step."""

    def __init__(self, step):
        self._step = step

    def _trigger_step(self):
        if self.global_step == self._step:
            raise InterruptedError("killed")


class Watched:
    """A memory that records its inputs and outputs."""

    def __init__(self, memory):
        self._memory, self.added, self.events, self.drawn = memory, [], [], []

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def __len__(self):
        return len(self._memory)

    def add(self, *arguments, environments=None):
        self.added.append((arguments, environments))
        self._memory.add(*arguments, environments=environments)

    def sample(self, size):
        batch = self._memory.sample(size)
        self.events.append("sample")
        self.drawn.append(batch.indices.copy())
        return batch

    def update_priorities(self, indices, priorities):
        self.events.append("update")
        np.testing.assert_array_equal(indices, self.drawn[-1])
        self._memory.update_priorities(indices, priorities)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_dqn_learns(train, walks, mode):
    trainer, _ = train(
        envs=walks(4, mode),
        target_network=TargetAverage(0.05),
        exploration=LinearEpsilon(1.0, 0.02, env_steps=200),
        max_epoch=5,
        steps_per_epoch=160,
        updates_per_iteration=8,
    )
    history = [value for _, value in trainer.monitors.get_history("mean_return")]
    assert history[0] < 0.5 < 0.8 < history[-1]
    assert trainer.loop.global_step == 800
    assert "several in one session call" in trainer.explain()
    assert trainer.loop.env_steps <= 40 + 100 * 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_the_transitions_of_the_memory(train, walks, new_memory, mode):
    memory = Watched(new_memory())
    trainer, _ = train(envs=walks(4, mode), memory=memory)
    steps = sum(len(arguments[2]) for arguments, _ in memory.added)
    assert steps == trainer.loop.env_steps >= 40
    # Of 6 iterations with 4 batches of 16 each, drawn together as soon as there are as many transitions.
    sizes = list(map(len, memory.drawn))
    assert sum(sizes) == 24 * 16 and set(sizes) <= {16, 32, 48, 64} and sizes[-1] == 64
    short = [numbers for _, numbers in memory.added if len(numbers) < 4]
    assert bool(short) == (mode == "NextStep")
    ended = [(a[3] | a[4], a[5]) for a, _ in memory.added]
    # The observation after an end is the last one of that episode: at an end of the corridor or the limit.
    last = np.concatenate([after[over] for over, after in ended])
    assert ((np.abs(last[:, 0]) == 1) | (last[:, 1] == 1)).all()
    assert len(memory) == 0


def test_large_observations_are_drawn_for_one_update_at_a_time(train, walks, new_memory, monkeypatch):
    monkeypatch.setattr("towerpack_trainers.rl._dqn._DRAWN_TOGETHER", 1)
    memory = Watched(new_memory())
    train(memory=memory, steps_per_epoch=8)
    assert memory.events == ["sample"] * 8


@pytest.mark.slow
def test_priorities_are_those_of_the_latest_errors(train, new_memory):
    memory = Watched(new_memory(sampling=prioritized()))
    train(memory=memory)
    assert memory.events == ["sample", "update"] * 24


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [lambda: UniformSampling(seed=5), prioritized])
def test_two_devices_equal_one(train, new_memory, sampling):
    one, of_one = train(name="one", memory=new_memory(sampling=sampling()))
    devices = ["/cpu:0", "/cpu:1"]
    two, of_two = train(
        name="two", memory=new_memory(sampling=sampling()), batch_size=8, devices=devices, max_epoch=1
    )
    assert one.loop.env_steps == two.loop.env_steps
    for name, value in of_one.items():
        np.testing.assert_allclose(of_two[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampling", "steps_per_epoch"),
    [(lambda: UniformSampling(seed=5), 8), (lambda: UniformSampling(seed=5), 6), (prioritized, 6)],
    ids=["at the end of an iteration", "amid an iteration", "amid an iteration, prioritized"],
)
def test_a_resumed_run_is_the_same_to_the_last_bit(train, kit, new_memory, sampling, steps_per_epoch):
    def run(name="log", **more):
        memory = new_memory(sampling=sampling(), n_step=3)
        saver = more.pop("callbacks", [])
        return train(
            memory=memory,
            name=name,
            callbacks=[ModelSaver(), *saver],
            steps_per_epoch=steps_per_epoch,
            max_epoch=4,
            **more,
        )

    whole, expected = run("whole")
    with pytest.raises(InterruptedError):
        run(callbacks=[StopsSoon(2 * steps_per_epoch + 3)])
    resumed, weights = run(resume="auto")
    assert resumed.loop.starting_epoch == 3
    kit.assert_same(weights, expected)
    assert resumed.loop.env_steps == whole.loop.env_steps
    assert resumed.monitors.get_history("mean_return") == whole.monitors.get_history("mean_return")


@pytest.mark.slow
def test_environments_without_a_state_begin_new_episodes(train, walks, caplog):
    class Stateless(walks):
        state_dict = property()

    epochs = {"steps_per_epoch": 6, "callbacks": [ModelSaver()]}
    train(envs=Stateless(4), **epochs)
    train(envs=Stateless(4), resume="auto", max_epoch=2, **epochs)
    assert "Environment state is not restorable" in caplog.text


@pytest.mark.slow
def test_a_dry_run_does_not_change_the_training(train, walks, kit, new_memory):
    _, expected = train(name="alone")
    envs, memory = walks(4), new_memory()
    train(envs=envs, memory=memory, dry_run=True, callbacks=[ModelSaver()])
    _, weights = train(envs=envs, memory=memory, name="after")
    kit.assert_same(weights, expected)


@pytest.mark.slow
def test_single_frames_of_stacks_are_stored(train, walks, box, valuer):
    class Stacked(walks):
        """Walks with stacks of the last three observations."""

        def __init__(self, count):
            super().__init__(count, "SameStep")
            self.single_observation_space = box([3, 2])

        def reset(self, **arguments):
            first, infos = super().reset(**arguments)
            self._frames = np.stack([first] * 3, 1)
            return self._frames.copy(), infos

        def step(self, actions):
            frame, reward, terminated, truncated, infos = super().step(actions)
            ended = terminated | truncated
            stacks = np.concatenate([self._frames[:, 1:], frame[:, None]], 1)
            for number in np.flatnonzero(ended):
                last = infos["final_obs"][number]
                infos["final_obs"][number] = np.concatenate([stacks[number, :-1], last[None]])
                stacks[number] = frame[number]
            self._frames = stacks
            return stacks.copy(), reward, terminated, truncated, infos

        state_dict = property()

    class Model(valuer):
        def q_values(self, observation):
            return super().q_values(observation[:, -1] + 0 * observation[:, 0])

    frames = {"sampling": UniformSampling(seed=5), "frame_stack": 3}
    memory = Watched(ReplayBuffer(((2,), "float32"), ((), "int64"), 500, **frames))
    train(envs=Stacked(4), model=Model, memory=memory)
    assert memory.added[0][0][0].shape == (4, 2)
    with pytest.raises(ConfigError, match=r"frame_stack=3; .* observations of shape \(2,\)"):
        train(memory=ReplayBuffer(((2,), "float32"), ((), "int64"), 500, frame_stack=3))


@pytest.mark.slow
def test_nan_rewards(train, walks):
    class Failing(walks):
        def step(self, actions):
            observation, reward, *rest = super().step(actions)
            return observation, np.where(self.steps == 5, np.nan, reward), *rest

    with pytest.raises(EnvironmentStepError, match="Environment 0, step 5: the reward is nan"):
        train(envs=Failing(4))


def test_wrong_arguments(train, walks, new_memory, walker):
    with pytest.raises(ConfigError, match="room for 10 transitions"):
        train(memory=new_memory(10))
    with pytest.raises(ConfigError, match=r"steps_per_iteration=6\): envs has 4 environments"):
        train(steps_per_iteration=6)
    with pytest.raises(ConfigError, match=r"DoubleQ\(n_step=3\): the memory has n_step=1"):
        train(target=DoubleQ(n_step=3))
    with pytest.raises(ConfigError, match=r"DoubleQ\(gamma=0.9\): the memory has gamma=0.99"):
        train(target=DoubleQ(gamma=0.9))
    with pytest.raises(ConfigError, match="target='max': expected a QObjective"):
        train(target="max")
    with pytest.raises(ConfigError, match=r"TrainConfig\(model=a QModel\)"):
        DQNTrainer(TrainConfig(model=walker.of(walks()), max_epoch=1, log_dir=None), walks(), new_memory())
    with pytest.raises(ConfigError, match=r"LinearEpsilon\(end=1.5\): expected a probability"):
        LinearEpsilon(end=1.5)
    with pytest.raises(ConfigError, match="TargetCopy"):
        TargetCopy(0)
    with pytest.raises(ConfigError, match=r"TargetAverage\(rate=0\)"):
        TargetAverage(0)


class SeeTarget(Callback):
    """Records the network and its target before the first step."""

    def _before_train(self):
        sess, graph = self.trainer.sess, self.graph
        variables = {variable.op.name: variable for variable in graph.get_collection("variables")}
        self.values = sess.run(variables)

    def same(self):
        """Returns the names of variables with equal values in the network and its target."""
        names = [name.partition("/")[2] for name in self.values if name.startswith("target_network/")]
        return {n for n in names if np.array_equal(self.values[f"target_network/{n}"], self.values[n])}


def weights_alone(values):
    return {
        name: value for name, value in values.items() if "target_network" not in name and "Adam" not in name
    }


@pytest.mark.slow
@pytest.mark.parametrize("rule", [TargetCopy(1000), TargetAverage(0.001)], ids=["copy", "average"])
@pytest.mark.parametrize("kind", ["SmartInit", "DictRestore", "SaverRestore", "resume"])
def test_a_missing_target_network_begins_as_a_copy(train, tmp_path, kind, rule):
    _, old = train(callbacks=[ModelSaver()], name="old")
    assert old["global_step"] == 24
    seen = SeeTarget()
    path = tmp_path / "old" / "model-24"
    if kind == "resume":
        checkpoint = read_checkpoint(path)
        lacking = write_checkpoint(
            tmp_path / "lacking", weights_alone(checkpoint.variables), checkpoint.state
        )
        shutil.copytree(checkpoint.callback_files, lacking / "callbacks")
        more = {"resume": lacking, "resume_allow": ["missing"], "max_epoch": 2}
    elif kind == "SaverRestore":
        more = {"session_init": SaverRestore(path, ignore=[".*target_network.*"])}
    else:
        more = {
            "session_init": {"SmartInit": SmartInit, "DictRestore": DictRestore}[kind](weights_alone(old))
        }
    train(callbacks=[seen, ModelSaver()], target_network=rule, **{"name": "new", **more})
    assert seen.values["global_step"] == 24
    assert seen.same() == {"hidden/W", "hidden/b", "values/W", "values/b"}


@pytest.mark.slow
def test_a_restored_target_network_is_kept_and_a_new_layer_of_it_is_copied(train, tmp_path):
    _, old = train(callbacks=[ModelSaver()], name="old", target_network=TargetCopy(1000))
    seen = SeeTarget()
    part = {name: value for name, value in old.items() if "values/" not in name}
    train(callbacks=[seen], name="new", session_init=SmartInit(part))
    assert seen.same() == {"values/W", "values/b"}
    np.testing.assert_array_equal(seen.values["target_network/hidden/W"], old["target_network/hidden/W"])
