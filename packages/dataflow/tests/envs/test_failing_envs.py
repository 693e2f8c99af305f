"""Environments that fail, hang or die: the error names environment and step, and nothing is left running."""

import os
import select
import signal
import subprocess
import sys
import threading
from time import monotonic

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from towerpack_dataflow import EnvCallError, EnvError, EnvTimeoutError, SendError, WorkerDiedError
from towerpack_dataflow.envs import ProcessVectorEnv

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Faulty(gymnasium.Env):
    """Does something wrong in step 2, counted from 0."""

    def __init__(self, fault=None):
        self.fault = fault
        self.observation_space, self.action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = -1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        made = [np.zeros(2, np.float32), 1.0, False, False, {}]
        if self.steps == 2 and self.fault is not None:
            made = self.fault(self, made) or made
        return tuple(made)


def raises(env, made):
    raise KeyError("the door is locked")


def hangs(env, made):
    signal.pause()


def dies(env, made):
    os.kill(os.getpid(), signal.SIGSEGV)


def put(place, value):
    return lambda env, made: [*made[:place], value, *made[place + 1 :]]


def change_spaces(env, made):
    env.observation_space = spaces.Box(0, 2, (2,))
    return [made[0], 1.0, True, False, {}]


def run(fault, **options):
    """Steps four environments, of which number 2 has the fault, until the error comes."""
    envs = ProcessVectorEnv([Faulty, Faulty, lambda: Faulty(fault), Faulty], num_workers=2, **options)
    pids = [worker.process.pid for worker in envs._workers._group.workers]
    envs.reset()
    began = monotonic()
    envs.send(np.zeros(4, np.int64))
    try:
        while True:
            began = monotonic()
            envs.recv()
            envs.send(np.zeros(envs.batch_size, np.int64))
    finally:
        took = monotonic() - began
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
        with pytest.raises(EnvCallError, match="no workers any more: they were ended by"):
            envs.step(np.zeros(4, np.int64))
        assert took < 2 + (options.get("timeout") or 0)


def test_an_error_keeps_its_type_and_names_environment_and_step():
    with pytest.raises(KeyError, match="the door is locked") as caught:
        run(raises)
    assert "in environment 2, in step 2 of episode 0 (worker 1, process" in caught.value.__notes__[0]
    assert "in raises" in str(caught.value.__cause__)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_dead_worker_is_named_with_its_signal(batch_size):
    with pytest.raises(
        WorkerDiedError, match=r"worker 1 .*SIGSEGV.*in environment 2, in step 2 of episode 0"
    ):
        run(dies, batch_size=batch_size)


@pytest.mark.slow
def test_a_step_that_does_not_end_is_named():
    # A fork imports nothing: on a busy machine, imports alone may take longer than the limit.
    with pytest.raises(EnvTimeoutError, match=r"timeout=4 seconds in environment 2, in step 2 of episode 0"):
        run(hangs, timeout=4.0, start_method="fork")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (put(0, np.zeros(3, np.float32)), r"the observation has shape \(3,\); expected \(2,\)"),
        (put(0, np.zeros(2, np.complex64)), "the observation has dtype complex64; expected float32"),
        (put(0, {"a": 1}), r"the observation has shape \(\); expected \(2,\)"),
        (put(1, float("nan")), "the reward is nan; expected a finite number"),
        (put(1, "much"), "the reward is 'much'"),
        (put(2, 1), "terminated is 1; expected True or False"),
        (put(4, None), "info is NoneType; expected a dict"),
        (lambda env, made: made[:4], r"step\(\) returned 4 values"),
    ],
)
def test_a_broken_interface_is_an_error_that_names_environment_and_step(fault, text):
    with pytest.raises(
        EnvError, match=f"environment 2 broke its own interface in step 2 of episode 0: {text}"
    ):
        run(fault, start_method="fork")


def test_changed_spaces_are_found_at_the_reset():
    with pytest.raises(
        EnvError, match=r"environment 2 .* in the reset for episode 1: observation_space has changed"
    ):
        run(change_spaces)


def test_environments_that_cannot_be_made():
    def locked():
        raise PermissionError("no licence")

    with pytest.raises(PermissionError, match="no licence") as caught:
        ProcessVectorEnv([Faulty, locked], num_workers=2)
    assert "in environment 1, while it was made" in caught.value.__notes__[0]
    with pytest.raises(EnvError, match="function of environment 0 returned NoneType"):
        ProcessVectorEnv([lambda: None])
    lock = threading.Lock()
    with pytest.raises(SendError, match=r"the function of environment 1.*cannot be sent to a worker process"):
        ProcessVectorEnv([Faulty, lambda: lock])
    with pytest.raises(EnvTimeoutError, match="environment 0, while it was made"):
        ProcessVectorEnv([signal.pause], timeout=0.5, start_method="fork")


def test_spaces_that_differ_or_have_no_fixed_shape():
    class Words(Faulty):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict({"said": spaces.Text(5)})

    class Wide(Faulty):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Discrete(3)

    with pytest.raises(EnvError, match=r"observation space\['said'\] is Text.*no fixed shape"):
        ProcessVectorEnv([Words], start_method="fork")
    with pytest.raises(EnvError, match=r"environment 1 has action_space Discrete\(3\)"):
        ProcessVectorEnv([Faulty, Wide], num_workers=1, start_method="fork")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_parent_ends(how):
    code = (
        "import signal, gymnasium, numpy as np\n"
        "from towerpack_dataflow.envs import ProcessVectorEnv\n"
        # Background processes of shells ignore Ctrl-C, and so do their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "envs = ProcessVectorEnv([lambda: gymnasium.make('CartPole-v1')] * 2, num_workers=2)\n"
        "envs.reset()\n"
        "print(*(worker.process.pid for worker in envs._workers._group.workers), flush=True)\n"
        "while True: envs.step(np.zeros(2, np.int64))\n"
    )
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as parent:
        pids = list(map(int, parent.stdout.readline().split()))
        descriptors = [os.pidfd_open(pid) for pid in pids]
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)
        else:
            parent.kill()
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(5000)
            poll.unregister(descriptor)
            os.close(descriptor)
    assert len(pids) == 2
    assert set(os.listdir("/dev/shm")) <= before
