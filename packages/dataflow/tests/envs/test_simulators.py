"""Simulators yield the transitions of single stepping, each at its own speed, and fail with typed errors."""

import os
import select
import signal
import subprocess
import sys
import threading
from functools import partial
from time import monotonic

import cloudpickle
import gymnasium
import numpy as np
import pytest
import zmq
from gymnasium import spaces

from towerpack_dataflow import (
    ArgumentError,
    EnvCallError,
    EnvError,
    EnvTimeoutError,
    MessageError,
    WorkerDiedError,
)
from towerpack_dataflow.envs import episode_seed
from towerpack_dataflow.envs.simulators import SimulatorMaster, SimulatorProcess
from towerpack_dataflow.remote import pack_message

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # simulators need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class Counting(gymnasium.Env):
    """Shows its number, seed and step; an episode has three steps. Does something wrong in step 2."""

    def __init__(self, number=0, fault=None):
        self.number, self.fault = number, fault
        self.observation_space = spaces.Dict({"facts": spaces.Box(0, 2**40, (2,), np.float64)})
        self.action_space = spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps = seed, 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        made = [self._observation(), float(action), self.steps == 3, False, {}]
        if self.steps == 3 and self.fault is not None:
            made = self.fault(made) or made
        return tuple(made)

    def _observation(self):
        return {"facts": np.array([self.seed, self.steps], np.float64)}


class Driver:
    """Answers each simulator with its own number plus the row, `most` times; then waits."""

    def __init__(self, master, most=8):
        self.master, self.most, self.error, self.over = master, most, None, threading.Event()
        self.states = {number: [] for number in range(len(master.simulators))}
        self.episodes, self.stopped = [], set()

    def on_states(self, states):
        number = states.simulator
        self.states[number].append(states)
        if len(self.states[number]) < self.most:
            self.master.send(number, number + np.arange(len(states.environments)))
        else:
            self.stopped.add(number)
            if len(self.stopped) == len(self.states):
                self.over.set()

    def on_episode_over(self, episode):
        self.episodes.append(episode)

    def on_error(self, error):
        self.error = error
        self.over.set()

    def run(self):
        self.master.start(self)
        assert self.over.wait(30)
        if self.error is not None:
            raise self.error


def master_of(*make_envs, **options):
    return SimulatorMaster([SimulatorProcess(each) for each in make_envs], **{"seed": 5, **options})


def pids_of(master):
    return [worker.process.pid for worker in master._workers._group.workers]


def test_the_transitions_are_those_of_single_stepping():
    with master_of([Counting, partial(Counting, 1)], partial(Counting, 2)) as master:
        assert master.simulators == [range(2), range(2, 3)]
        assert (master.num_envs, master.single_action_space) == (3, spaces.Discrete(5))
        driver = Driver(master)
        driver.run()
        pids = pids_of(master)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    for numbers, seen in zip(master.simulators, driver.states.values()):
        assert [states.environments for states in seen] == [numbers] * 8
        for row, environment in enumerate(numbers):
            facts = [tuple(states.observation["facts"][row]) for states in seen]
            seeds = [episode_seed(5, environment, episode) for episode in range(2)]
            assert facts == [(seed, step) for seed in seeds for step in range(4)]
            assert [states.valid[row] for states in seen] == [False, True, True, True] * 2
            assert [states.terminated[row] for states in seen] == [False, False, False, True] * 2
            rewards = [states.reward[row] for states in seen]
            assert rewards == [0, *[seen[0].simulator + row] * 3] * 2
    totals = sorted((each.environment, each.total, each.length) for each in driver.episodes)
    assert totals == [(0, 0, 3)] * 2 + [(1, 3, 3)] * 2 + [(2, 3, 3)] * 2


def test_messages_of_a_stranger_are_rejected(caplog):
    with master_of(Counting) as master, zmq.Context() as context:
        driver = Driver(master, most=10**9)
        master.start(driver)
        for frames in ([b"garbage"], [b"", b"\0" * 2**20], pack_message(["states", [], 0, 0, 0])):
            with context.socket(zmq.DEALER) as stranger:
                stranger.linger = 0
                stranger.connect(master.address)
                stranger.send_multipart(frames)
                while not caplog.records:
                    os.sched_yield()
        before = len(driver.states[0])
        while len(driver.states[0]) < before + 10:
            os.sched_yield()
        assert driver.error is None
    assert len(caplog.records) == 1
    assert "a message of 7 bytes from an unknown client" in caplog.text


def test_a_message_that_cannot_be_read_names_the_simulator():
    with master_of(Counting, start_method="fork") as master:
        master._link.largest = 10
        with pytest.raises(
            MessageError, match=r"simulator 0: a message of \d+ bytes was received, but the limit is 10"
        ):
            Driver(master).run()


def raises(made):
    raise KeyError("the door is locked")


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (raises, KeyError, "the door is locked"),
        (lambda made: [{"facts": np.zeros(3)}, *made[1:]], EnvError, r"shape \(3,\); expected \(2,\)"),
        (lambda made: [made[0], float("nan"), *made[2:]], EnvError, "the reward is nan"),
    ],
)
def test_environments_that_fail(fault, kind, text):
    with master_of(Counting, [Counting, partial(Counting, fault=fault)], start_method="fork") as master:
        pids = pids_of(master)
        with pytest.raises(kind, match=text) as caught:
            Driver(master, most=99).run()
        found = "".join([str(caught.value), *caught.value.__notes__])
        assert (
            "environment 2" in found and "step 2 of episode 0" in found and "(simulator 1, process" in found
        )
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
        assert not master.running
        with pytest.raises(EnvCallError, match="SimulatorMaster has no simulators any more: they were ended"):
            master.send(0, [0])


def test_a_killed_simulator_is_named_at_once():
    with master_of(Counting, Counting) as master:
        driver = Driver(master, most=10**9)
        master.start(driver)
        while not driver.episodes:
            os.sched_yield()
        began = monotonic()
        os.kill(pids_of(master)[1], signal.SIGKILL)
        assert driver.over.wait(30)
        assert monotonic() - began < 20  # silence alone would count much later
        assert isinstance(driver.error, WorkerDiedError)
        assert "simulator 1 (process" in str(driver.error) and "SIGKILL" in str(driver.error)


def test_a_hanging_simulator_is_named_while_others_continue():
    hangs = partial(Counting, fault=lambda made: signal.pause())
    late = pytest.raises(EnvTimeoutError, match=r"in environment 2, in step 2 of episode 0; simulator 1")
    with master_of(Counting, [Counting, hangs], timeout=0.7, start_method="fork") as master, late:
        Driver(master, most=10**9).run()


def test_environments_that_cannot_be_made_and_wrong_arguments():
    with pytest.raises(ArgumentError, match="simulators is a list of SimulatorProcess; received"):
        SimulatorMaster([Counting])
    with pytest.raises(ArgumentError, match=r"make_envs is a function .* received \[\]"):
        SimulatorProcess([])
    with pytest.raises(EnvError, match="function of environment 1 returned NoneType"):
        master_of(Counting, lambda: None, start_method="fork")


def test_actions_that_do_not_fit_and_calls_out_of_turn():
    with master_of(Counting, start_method="fork") as master:
        with pytest.raises(EnvCallError, match="simulator 0, which does not wait for actions"):
            master.send(0, [0])
        driver = Driver(master, most=1)
        driver.run()
        with pytest.raises(
            ArgumentError,
            match=r"actions of simulator 0, of 1 environments, do not fit .*shape \(2,\); expected \(1,\)",
        ):
            master.send(0, [0, 1])
        with pytest.raises(ArgumentError, match="simulator is an integer"):
            master.send(1, [0])
        with pytest.raises(EnvCallError, match="twice"):
            master.start(driver)


def test_an_error_in_a_hook_ends_the_simulators():
    with master_of(Counting, start_method="fork") as master:
        driver = Driver(master)
        driver.on_states = lambda states: 1 / 0
        with pytest.raises(ZeroDivisionError):
            driver.run()
        with pytest.raises(EnvCallError, match="ended by ZeroDivisionError"):
            master.send(0, [0])


def test_ctrl_c_leaves_nothing_running():
    code = (
        "import signal, gymnasium, threading\n"
        "from towerpack_dataflow.envs.simulators import SimulatorMaster, SimulatorProcess\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "master = SimulatorMaster([SimulatorProcess(lambda: gymnasium.make('CartPole-v1'))] * 2)\n"
        "class Hooks:\n"
        "    def on_states(self, states): master.send(states.simulator, [0])\n"
        "    def on_episode_over(self, episode): pass\n"
        "master.start(Hooks())\n"
        "print(*(worker.process.pid for worker in master._workers._group.workers), flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as parent:
        pids = list(map(int, parent.stdout.readline().split()))
        descriptors = [os.pidfd_open(pid) for pid in pids]
        os.killpg(parent.pid, signal.SIGINT)
        for descriptor in descriptors:
            assert select.select([descriptor], [], [], 5)[0]
            os.close(descriptor)
    assert len(pids) == 2
