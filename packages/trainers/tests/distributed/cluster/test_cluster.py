"""The processes of a training, from TF_CONFIG, SLURM or arguments."""

import json

import pytest

from towerpack_trainers.distributed import Cluster, ClusterError, resolve_cluster


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    """Removes the machine's own settings."""
    for name in ("TF_CONFIG", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)


def set_tf_config(monkeypatch, cluster, job, index):
    task = {"type": job, "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))


def test_arguments():
    cluster = resolve_cluster(["a:1", "b:2", "c:3"], 2)
    assert (cluster.rank, cluster.size, cluster.is_chief) == (2, 3, False)
    assert cluster.task == ("worker", 2)
    assert cluster.spec() == {"worker": ["a:1", "b:2", "c:3"]}


def test_tf_config_ranks_the_chief_first(monkeypatch):
    jobs = {"worker": ["b:2", "c:3"], "chief": ["a:1"]}
    set_tf_config(monkeypatch, jobs, "worker", 1)
    cluster = resolve_cluster()
    assert cluster.addresses == ("a:1", "b:2", "c:3")
    assert (cluster.rank, cluster.task, cluster.tasks[0]) == (2, ("worker", 1), ("chief", 0))
    assert cluster.spec() == jobs


def test_arguments_count_before_tf_config(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:2"]}, "worker", 1)
    assert resolve_cluster(["x:1"], 0).size == 1


def test_slurm(monkeypatch):
    for name, value in {
        "SLURM_PROCID": "3",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": "node[07-08]",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    }.items():
        monkeypatch.setenv(name, value)
    cluster = resolve_cluster(port_base=5000)
    assert cluster.addresses == ("node07:5000", "node07:5001", "node08:5000", "node08:5001")
    assert cluster.rank == 3


def test_slurm_without_its_variables_is_named(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.delenv("SLURM_STEP_NODELIST", raising=False)
    with pytest.raises(ClusterError, match=r"SLURM is no valid cluster: .*SLURM_STEP_NODELIST"):
        resolve_cluster()


def test_no_description_of_the_cluster():
    with pytest.raises(ClusterError, match=r"no TF_CONFIG.*launch --processes 2"):
        resolve_cluster()


def test_half_of_the_arguments():
    with pytest.raises(ClusterError, match="both addresses= and rank="):
        resolve_cluster(["a:1"])


def test_parameter_servers_are_refused(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0)
    with pytest.raises(ClusterError, match="remove the job 'ps'"):
        resolve_cluster()


def test_an_evaluator_is_refused(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1"]}, "evaluator", 0)
    with pytest.raises(ClusterError, match="'evaluator' number 0, which does not train"):
        resolve_cluster()


def test_a_task_outside_of_the_cluster(monkeypatch):
    set_tf_config(monkeypatch, {"worker": ["a:1", "b:1"]}, "worker", 2)
    with pytest.raises(ClusterError, match="'worker' number 2, but its cluster is"):
        resolve_cluster()


def test_damaged_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{not json")
    with pytest.raises(ClusterError, match="TF_CONFIG is no valid cluster"):
        resolve_cluster()


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:0", "host:70000", "host:x", 7])
def test_addresses_are_checked(address):
    with pytest.raises(ClusterError, match='expected "host:port"'):
        Cluster.of([address], 0)


def test_one_address_is_not_a_list():
    with pytest.raises(ClusterError, match="expected a list"):
        Cluster.of("a:1", 0)


@pytest.mark.parametrize("rank", [-1, 2, None, "0"])
def test_ranks_are_checked(rank):
    with pytest.raises(ClusterError, match="expected 0 to 1"):
        Cluster.of(["a:1", "b:1"], rank)


def test_one_address_twice():
    with pytest.raises(ClusterError, match="not distinct"):
        Cluster.of(["a:1", "a:1"], 0)


def test_no_process():
    with pytest.raises(ClusterError, match="no process"):
        Cluster.of([], 0)


def test_fingerprints_distinguish_clusters():
    one, two = Cluster.of(["a:1", "b:1"], 0), Cluster.of(["b:1", "a:1"], 0)
    assert one.fingerprint == Cluster.of(["a:1", "b:1"], 1).fingerprint != two.fingerprint
