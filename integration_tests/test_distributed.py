"""Training in several processes: real ones, really killed, stopped, cut off, with a limit on every wait."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from towerpack_callbacks.checkpoint import all_checkpoints, latest_checkpoint, read_checkpoint
from towerpack_trainers.distributed import launch

HERE = Path(__file__).parent
SCRIPT = HERE / "distributed_training.py"
EXAMPLE = HERE.parent / "examples" / "distributed.py"
# Importing TensorFlow in three processes takes most of it.
LIMIT = 400
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * LIMIT)]

PEER_TIMEOUT = 5.0


def run(directory, *command):
    """Exit code and output of a command, both streams in one."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    return done.returncode, done.stdout


@pytest.fixture
def launched(tmp_path, monkeypatch, capfd):
    """Trains in processes of this machine; returns exit code and output, both streams in one."""
    monkeypatch.chdir(tmp_path)

    def begin(processes, *arguments, **options):
        capfd.readouterr()
        # In this process: one that only launches would import TensorFlow, too.
        code = launch([sys.executable, *map(str, arguments)], processes, grace=20, **options)
        return code, "".join(capfd.readouterr())

    return begin


def weights(directory, name, rank=0):
    """All variables as a process had them at its end."""
    with np.load(directory / f"{name}-rank{rank}.npz") as archive:
        return dict(archive)


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_close(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The end of an undisturbed training of three processes, and of one process."""
    directory = tmp_path_factory.mktemp("undisturbed")
    assert launch([sys.executable, str(SCRIPT), str(directory / "three")], 3) == 0
    code, output = run(directory, sys.executable, SCRIPT, "alone", "--engine", "simple")
    assert code == 0, output
    three = [weights(directory, "three", rank) for rank in range(3)]
    return three, weights(directory, "alone")


def test_three_processes_end_as_one_alone(undisturbed):
    three, alone = undisturbed
    assert_equal(three[0], three[1])
    assert_equal(three[0], three[2])
    assert_close(three[0], alone)


@pytest.mark.timeout(300)
def test_two_processes_one_killed(tmp_path, launched):
    """A small form of the tests below, with no callback that observes a step, and quick."""
    options = ("--victim", 1, "--at", 12, "--unobserved")
    code, output = launched(2, SCRIPT, "run", *options, max_restarts=1)
    assert code == 0, output
    assert "[launch] rank 1 was killed by SIGKILL" in output
    assert named_by(output, (0,), lost=1)
    first, second = (int(step) for step in re.findall(r"^\[0\] started at (\d+)$", output, re.MULTILINE))
    assert first == 0
    assert second >= 10
    assert second % 5 == 0
    assert_equal(weights(tmp_path, "run"), weights(tmp_path, "run", 1))
    assert weights(tmp_path, "run")["global_step"] == 40
    assert_close(weights(tmp_path, "run"), trained_alone(tmp_path))


def trained_alone(directory):
    """The end of the same training in this process."""
    in_this_process(directory / "alone")
    return weights(directory, "alone")


def in_this_process(*arguments):
    """Trains in this process only."""
    spec = importlib.util.spec_from_file_location("distributed_training", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main([*map(str, arguments), "--engine", "simple"])


@pytest.mark.timeout(300)
def test_one_then_two_then_one_with_other_batches(tmp_path, launched):
    """Each stops inside the epoch; together they train on each of its 240 datapoints once."""
    stop = ("--stop", "--victim", 0, "--save", 4, "--max-epoch", 1)
    in_this_process(tmp_path / "run", *stop, "--at", 8)
    allow = ("--allow", "world", "batch")
    code, output = launched(2, SCRIPT, "run", *stop, "--at", 12, "--total", 16, *allow)
    assert code == 0, output
    assert "2 processes with 16 datapoints in a batch of all of them, instead of 1 with 12" in output
    assert "at datapoint 96 of pass 0, both from 0; epoch 1 has 9 steps left" in output
    in_this_process(tmp_path / "run", *stop, "--at", 0, "--total", 20, *allow)
    parts = {path.stem: np.load(path) for path in tmp_path.glob("labels-*.npy")}
    sizes = {"labels-1-12-0": 96, "labels-2-16-0": 32, "labels-2-16-1": 32, "labels-1-20-0": 80}
    assert {name: len(labels) for name, labels in parts.items()} == sizes
    assert len(set(np.concatenate(list(parts.values())).tolist())) == 240


# ---- faults


def named_by(output, ranks, lost):
    """Whether each of some processes ended with the error that names the lost one."""
    return all(
        re.search(rf"^\[{rank}\] .*PeerLostError: rank {lost} \(", output, re.MULTILINE) for rank in ranks
    )


def test_after_a_kill_the_same_number_ends_with_the_very_same_weights(tmp_path, undisturbed, launched):
    options = ("--victim", 2, "--at", 12, "--signal", "SIGKILL")
    code, output = launched(3, SCRIPT, "run", *options, max_restarts=1)
    assert code == 0, output
    assert "[launch] rank 2 was killed by SIGKILL" in output
    assert named_by(output, (0, 1), lost=2)
    assert output.count("[0] started") == 2
    # It resumed from the checkpoint of step 10, and nothing of the steps in between was saved.
    assert "[launch] restart 1 of 1, with 3 processes" in output
    second = output.split("[0] started")[2]
    assert re.findall(r"^\[0\] step (\d+)$", second, re.MULTILINE)[0] == "11"
    assert_equal(weights(tmp_path, "run"), undisturbed[0][0])


def test_after_a_killed_chief_fewer_end_with_the_same_curve(tmp_path, undisturbed, launched):
    """The total batch stays, so the weights do, but for the order of sums."""
    options = ("--victim", 0, "--at", 12, "--signal", "SIGKILL")
    code, output = launched(3, SCRIPT, "run", *options, max_restarts=1, min_processes=2)
    assert code == 0, output
    assert named_by(output, (1, 2), lost=0)
    assert "[launch] restart 1 of 1, with 2 processes" in output
    assert_close(weights(tmp_path, "run"), undisturbed[0][0])


def test_a_stopped_process_is_named_within_the_time_out(tmp_path, launched):
    options = ("--victim", 1, "--at", 12, "--signal", "SIGSTOP", "--peer-timeout", PEER_TIMEOUT)
    code, output = launched(3, SCRIPT, "run", *options)
    assert code == 1
    assert named_by(output, (0, 2), lost=1)
    assert f"sent no heartbeat for {PEER_TIMEOUT:g} s" in output
    assert "rank 1 did not exit" in output
    assert_only_whole_steps(tmp_path / "run", before=12)


def assert_only_whole_steps(log_dir, before):
    """Checkpoints belong to finished steps, are readable, and match their names."""
    paths = all_checkpoints(log_dir)
    assert paths
    for path in paths:
        checkpoint = read_checkpoint(path)
        step = checkpoint.state["loop"]["global_step"]
        assert path.name == f"model-{step}"
        assert step <= before
        assert checkpoint.variables["global_step"] == step


def test_a_failing_process_is_named_with_its_error(tmp_path, launched):
    options = ("--victim", 2, "--at", 7, "--fail")
    code, output = launched(3, SCRIPT, "run", *options)
    assert code == 1
    assert "[2] ValueError: a mistake in the user's code" in output
    assert named_by(output, (0, 1), lost=2)
    assert output.count("it failed: ValueError: a mistake in the user's code") >= 2
    for rank in (0, 1):
        last = re.findall(rf"^\[{rank}\] (\S.*)$", output, re.MULTILINE)[-1]
        assert "PeerLostError: rank 2 (" in last, last


def test_a_callback_whose_own_data_ends_fails_by_its_own_error(tmp_path, launched):
    """The training's input is finite, too, and has not ended."""
    code, output = launched(2, SCRIPT, "run", "--victim", 1, "--at", 7, "--end-of-own-data")
    assert code == 1
    assert re.search(r"^\[1\] .*OutOfRangeError: the callback's own data has ended", output, re.MULTILINE)
    assert named_by(output, (0,), lost=1)
    assert "it failed: OutOfRangeError: the callback's own data has ended" in output


def test_a_process_that_lives_and_does_not_come_is_named(tmp_path, launched):
    options = ("--victim", 1, "--at", 7, "--block", "--step-timeout", 8, "--peer-timeout", 3)
    code, output = launched(3, SCRIPT, "run", *options)
    assert code == 1
    assert re.search(r"PeerLostError: rank 1 \(.*\) did not join an exchange in time", output)
    assert "7 finished steps, outside the next" in output


def test_who_stops_stops_all(tmp_path, launched):
    code, output = launched(3, SCRIPT, "run", "--victim", 1, "--at", 7, "--stop")
    assert code == 0, output
    for rank in range(3):
        assert re.findall(rf"^\[{rank}\] step (\d+)$", output, re.MULTILINE)[-1] == "7"
        assert weights(tmp_path, "run", rank)["global_step"] == 7
        assert_equal(weights(tmp_path, "run", rank), weights(tmp_path, "run"))


# ---- a network that is cut


class Network:
    """Hosts of this machine, each in a network namespace, on one bridge."""

    def __init__(self, size):
        self.key = f"tp{os.getpid() % 10000}"
        self.size = size
        self.made = []

    def __enter__(self):
        self._ip("link", "add", self.key, "type", "bridge", undo=("link", "del", self.key))
        self._ip("link", "set", self.key, "up")
        for rank in range(self.size):
            space, outside, inside = self.space(rank), f"{self.key}o{rank}", f"{self.key}i{rank}"
            self._ip("netns", "add", space, undo=("netns", "del", space))
            self._ip("link", "add", outside, "type", "veth", "peer", "name", inside)
            self._ip("link", "set", inside, "netns", space)
            self._ip("link", "set", outside, "master", self.key, "up")
            self._ip("-n", space, "addr", "add", f"{self.host(rank)}/24", "dev", inside)
            self._ip("-n", space, "link", "set", inside, "up")
            self._ip("-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(self, *error):
        for undo in reversed(self.made):
            subprocess.run(["ip", *undo], check=False, timeout=30)

    def _ip(self, *arguments, undo=None):
        subprocess.run(["ip", *arguments], check=True, timeout=30, capture_output=True)
        if undo:
            self.made.append(undo)

    def space(self, rank):
        return f"{self.key}n{rank}"

    def host(self, rank):
        return f"10.213.77.{rank + 1}"

    def cut(self, rank):
        """Disconnects a host: packets are lost silently."""
        self._ip("link", "set", f"{self.key}o{rank}", "nomaster")


@pytest.fixture
def network():
    """Three hosts, if this machine permits network namespaces."""
    if shutil.which("ip") is None:
        pytest.skip("cutting a network needs `ip`, from the package iproute2")
    if os.geteuid() != 0:
        pytest.skip("making network namespaces needs root")
    made = Network(3)
    try:
        made.__enter__()
    except subprocess.CalledProcessError as error:
        made.__exit__()
        pytest.skip(f"this machine allows no network namespaces: {error.stderr.decode().strip()}")
    yield made
    made.__exit__()


def test_a_cut_network_is_noticed_on_both_sides(tmp_path, network):
    addresses = [f"{network.host(rank)}:23456" for rank in range(3)]
    processes = []
    options = ("--peer-timeout", str(PEER_TIMEOUT), "--max-epoch", "100000", "--save", "20")
    try:
        for rank in range(3):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
            command = [sys.executable, str(SCRIPT), "run", *options]
            with (tmp_path / f"output{rank}").open("w") as output:
                processes.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", network.space(rank), *command],
                        cwd=tmp_path,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **cluster_environment(task)},
                    )
                )
        wait_for(lambda: latest_checkpoint(tmp_path / "run") is not None, processes)
        network.cut(2)
        cut = time.monotonic()
        codes = [process.wait(LIMIT) for process in processes]
        took = time.monotonic() - cut
    finally:
        for process in processes:
            process.kill()
            process.wait()
    texts = [(tmp_path / f"output{rank}").read_text() for rank in range(3)]
    assert codes == [1, 1, 1], texts
    for rank, lost in ((0, 2), (1, 2), (2, 0)):
        assert f"PeerLostError: rank {lost} ({addresses[lost]}) is lost: it sent no heartbeat" in texts[rank]
    # The time beyond the time-out is the end of three Python processes.
    assert took < PEER_TIMEOUT + 60
    assert_only_whole_steps(tmp_path / "run", before=10**9)


def cluster_environment(task):
    """The environment variables with the identity and the token of a process."""
    return {"TF_CONFIG": json.dumps(task), "TOWERPACK_TOKEN": "known to these processes alone"}


def wait_for(condition, processes):
    """Until something is so, while all processes live."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        for process in processes:
            assert process.poll() is None, "a process has ended too early"
        # Somebody who ends wakes us; otherwise it is time to look again.
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[0].wait(0.2)


# ---- another number, another order of operators


def seen(directory, name):
    """The datapoints that each process of each start has made, in their order."""
    return [
        [int(line) for line in path.read_text().split()] for path in sorted(directory.glob(f"{name}-seen-*"))
    ]


def test_batch_normalisation_and_dropout_resume_too(tmp_path, launched):
    assert launched(2, SCRIPT, "whole", "--rich")[0] == 0
    options = ("--victim", 1, "--at", 12, "--signal", "SIGKILL", "--rich")
    assert launched(2, SCRIPT, "killed", *options, max_restarts=1)[0] == 0
    assert_equal(weights(tmp_path, "whole"), weights(tmp_path, "killed"))
    one, other = weights(tmp_path, "killed"), weights(tmp_path, "killed", 1)
    local = [name for name in one if "EMA" in name]
    assert local
    assert_equal({n: one[n] for n in one if n not in local}, {n: other[n] for n in one if n not in local})


def test_an_epoch_is_covered_exactly(tmp_path, launched):
    """Each datapoint occurs once in each epoch, in any process."""
    assert launched(3, SCRIPT, "run", "--max-epoch", 1)[0] == 0
    shards = seen(tmp_path, "run")
    assert len(shards) == 3
    firsts = [shard[:80] for shard in shards]  # prefetched datapoints of the next epoch follow
    assert sorted(number for shard in firsts for number in shard) == list(range(240))


# ---- MPI


@pytest.fixture(scope="module")
def mpiexec():
    """The command that starts MPI's processes."""
    pytest.importorskip("mpi4py")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return shutil.which("mpiexec", path=path) or pytest.skip("there is no mpiexec")


def test_mpi_ends_as_one_process_alone(tmp_path, mpiexec, undisturbed):
    code, output = run(tmp_path, mpiexec, "-n", 2, sys.executable, SCRIPT, "run", "--engine", "mpi")
    assert code == 0, output
    assert_equal(weights(tmp_path, "run"), weights(tmp_path, "run", 1))
    assert_close(weights(tmp_path, "run"), undisturbed[1])


@pytest.mark.parametrize("number", ["SIGSTOP", "SIGKILL"])
def test_mpi_does_not_hang(tmp_path, mpiexec, number):
    options = (
        "--engine",
        "mpi",
        "--victim",
        1,
        "--at",
        7,
        "--signal",
        number,
        "--peer-timeout",
        PEER_TIMEOUT,
    )
    code, output = run(tmp_path, mpiexec, "-n", 3, sys.executable, SCRIPT, "run", *options)
    assert code != 0
    assert output.count("step 7\n") >= 1
    if number == "SIGSTOP":
        assert "PeerLostError: rank 1 (" in output
        assert_only_whole_steps(tmp_path / "run", before=7)
        return
    # When a process dies, mpiexec itself kills the others, who may not come to say anything; then it says so.
    assert "PeerLostError: rank 1 (" in output or re.search(r"KILLED BY SIGNAL: 9|EXIT CODE: 9", output, re.I)
    for path in all_checkpoints(tmp_path / "run"):  # the one of step 5 may not be written yet
        assert read_checkpoint(path).variables["global_step"] <= 7


# ---- the example


def test_the_example(tmp_path):
    code, output = run(
        tmp_path,
        sys.executable,
        "-m",
        "towerpack_trainers",
        "launch",
        "--processes",
        2,
        EXAMPLE,
        "--max-epoch",
        2,
    )
    assert code == 0, output
    accuracy = [float(value) for value in re.findall(r"validation_accuracy ([0-9.]+)", output)]
    assert len(accuracy) == 2
    assert accuracy[-1] > 0.8
