"""Killed at random moments and resumed each time, a training ends with the very same numbers.

It is run as it is by default, several steps in a session call, and as it is when a callback looks at each
step. KILLS is how often it is killed: 3 times, 2 in plain `nox`, and 25 in `nox -s "endurance(kills)"`.
"""

import itertools
import json
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

from towerpack_callbacks.checkpoint import read_checkpoint

KILLS = int(os.environ.get("KILLS", "3"))
# The entries of stats.jsonl that depend on timing, not on the training.
TIMED = (
    *("QueueInput/queue_size", "input/", "frames_per_second"),
    *("environment_share", "inference_share", "learner_share", "idle_share"),
)


def statistics(log_dir):
    """The lines of stats.jsonl, without timings."""
    lines = [json.loads(line) for line in (log_dir / "stats.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith(TIMED)} for line in lines]


def finish(process):
    """Waits for a run that nobody kills; returns its last step, and the seconds until its first one."""
    begun = time.monotonic()
    for line in process.stdout:
        if line.strip().isdigit():
            break
    seconds = time.monotonic() - begun
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return [line for line in output.splitlines() if line.isdigit()][-1], seconds


def kill_after_some_steps(process, log_dir, moment, start_seconds):
    """Kills it a few steps and a little time after it began."""
    steps, delay = moment.randrange(1, 10), moment.uniform(0, 0.05)
    for number, _ in enumerate(process.stdout):
        if number == steps:
            break
    threading.Event().wait(delay)
    process.kill()


def kill_while_saving(process, log_dir, moment, start_seconds):
    """Kills it as soon as a checkpoint is being written."""
    for line in process.stdout:
        if line != "begins\n":
            break  # what the run before left behind is gone now
    while process.poll() is None and not any(log_dir.glob(".writing-*")):
        threading.Event().wait(0.0005)
    process.kill()


def kill_at_any_time(process, log_dir, moment, start_seconds):
    """Kills it while it starts, or in its first steps if it is faster than the one before."""
    threading.Event().wait(moment.uniform(0, start_seconds))
    process.kill()


def ask_to_stop(process, log_dir, moment, start_seconds):
    """Sends SIGTERM some steps after it began, so that it saves; in the middle of a call of several."""
    steps = moment.randrange(1, 10)
    for number, line in enumerate(process.stdout):
        if number > steps and line.strip().isdigit():
            break
    process.terminate()


KILLED = [kill_after_some_steps, kill_while_saving, kill_at_any_time]


def disturb(start, tmp_path, options, steps, ways, kills, script="killed_training.py"):
    """Trains undisturbed, and with a number of kills; returns the latest checkpoints of both."""
    last_step, start_seconds = finish(start(script, tmp_path / "undisturbed", *options))
    assert last_step == steps
    log_dir, moment = tmp_path / "killed", random.Random(kills)
    log_dir.mkdir()
    for kill in itertools.islice(itertools.cycle(ways), kills):
        process = start(script, log_dir, *options)
        kill(process, log_dir, moment, start_seconds)
        ended = process.wait(timeout=60)
        assert ended == (143 if kill is ask_to_stop else -signal.SIGKILL), process.stderr.read()
    process = start(script, log_dir, *options)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return [read_checkpoint(tmp_path / name / "latest") for name in ("undisturbed", "killed")]


def assert_same(one, other, tmp_path):
    """All that two checkpoints hold is equal, and so are the statistics of the two runs."""
    assert one.variables.keys() == other.variables.keys()
    for name, value in one.variables.items():
        np.testing.assert_array_equal(other.variables[name], value, err_msg=name, strict=True)
    assert statistics(tmp_path / "killed") == statistics(tmp_path / "undisturbed")
    assert one.state["loop"] == other.state["loop"]
    assert one.state["input"] == other.state["input"]


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize(
    ("options", "steps", "ways"),
    [
        pytest.param(["--each-step"], "120", KILLED, marks=pytest.mark.long),
        ([], "360", [ask_to_stop, *KILLED]),
    ],
    ids=["each step by itself", "several steps in a call"],
)
def test_a_training_that_nothing_can_lose(start, tmp_path, options, steps, ways):
    one, other = disturb(start, tmp_path, options, steps, ways, KILLS)
    assert_same(one, other, tmp_path)
    best, best_other = (
        read_checkpoint(tmp_path / name / "max-validation_accuracy") for name in ("undisturbed", "killed")
    )
    assert best.path.name == best_other.path.name
    np.testing.assert_array_equal(best.variables["fc/W"], best_other.variables["fc/W"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS)
def test_two_networks_that_nothing_can_lose(start, tmp_path):
    # Noise, both optimizers, the averaged generator and the fixed noise of the pictures among it.
    kills = max(1, KILLS - 2)
    one, other = disturb(start, tmp_path, ["--gan"], "60", KILLED, kills)
    assert_same(one, other, tmp_path)
    pictures = [
        sorted((tmp_path / name / "images/samples").glob("*.png")) for name in ("undisturbed", "killed")
    ]
    assert len(pictures[0]) == 3
    assert [path.name for path in pictures[0]] == [path.name for path in pictures[1]]
    for picture, same in zip(*pictures):
        assert picture.read_bytes() == same.read_bytes()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS)
def test_an_agent_that_nothing_can_lose(start, tmp_path):
    # The returns of its episodes are among the statistics.
    pytest.importorskip("gymnasium")
    one, other = disturb(start, tmp_path, ["--ppo"], "60", KILLED, max(1, KILLS - 2))
    assert_same(one, other, tmp_path)
    assert statistics(tmp_path / "killed")[-1]["mean_return"] > 0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--processes"], id="envs in processes"),
        pytest.param(
            [], id="envs together", marks=pytest.mark.skipif(KILLS <= 3, reason="needs endurance(kills)")
        ),
    ],
)
def test_an_agent_with_a_memory_that_nothing_can_lose(start, tmp_path, options):
    pytest.importorskip("gymnasium")
    kills = max(1, KILLS - 2)
    epochs = 3 + kills // 4  # a run gets some steps further before it is killed, and must not be through
    options = [str(epochs), *options]
    one, other = disturb(start, tmp_path, options, str(20 * epochs), KILLED, kills, "killed_agent.py")
    assert_same(one, other, tmp_path)
    assert one.state["callbacks"]["ReplayCollector"] == other.state["callbacks"]["ReplayCollector"]
