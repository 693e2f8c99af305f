"""The processes of a training: addresses by rank, from `TF_CONFIG`, SLURM or arguments."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._distributed_errors import ClusterError

__all__ = ["Cluster", "resolve_cluster"]

# Kubernetes' TFJob names its first replica one or the other; either is rank 0.
_CHIEFS = ("chief", "master")
_TRAINING_JOBS = (*_CHIEFS, "worker")


@final
@attrs.frozen
class Cluster:
    """The processes of one training, and which of them this one is.

    Args:
        addresses: "host:port" of each process, by rank. All processes must give the same.
        rank: this process's number; 0 is the chief, which alone writes files.
        tasks: TensorFlow's name of each process, such as ("worker", 0).

    Raises:
        ClusterError: an address or the rank is not valid.

    Example:
        >>> cluster = Cluster.of(["10.0.0.1:2222", "10.0.0.2:2222"], rank=1)
        >>> cluster.size, cluster.is_chief, cluster.task
        (2, False, ('worker', 1))
    """

    addresses: tuple[str, ...]
    rank: int
    tasks: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, addresses: Sequence[str], rank: int) -> Cluster:
        """Makes a cluster of workers of their addresses."""
        if isinstance(addresses, str) or not isinstance(addresses, Sequence):
            raise ClusterError(
                f'addresses={addresses!r}: expected a list such as ["host0:2222", "host1:2222"].'
            )
        return cls(tuple(addresses), rank, tuple(("worker", index) for index in range(len(addresses))))

    def __attrs_post_init__(self) -> None:
        if not self.addresses:
            raise ClusterError("The cluster has no process: give at least one address.")
        for address in self.addresses:
            split_address(address)
        if len(set(self.addresses)) != len(self.addresses):
            raise ClusterError(
                f"The cluster's addresses {list(self.addresses)} are not distinct; each process needs a port "
                "of its own."
            )
        if not isinstance(self.rank, int) or not 0 <= self.rank < self.size:
            raise ClusterError(
                f"rank={self.rank!r} of a cluster of {self.size}: expected 0 to {self.size - 1}."
            )

    @property
    def size(self) -> int:
        """The number of processes that train together."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    @property
    def task(self) -> tuple[str, int]:
        """TensorFlow's job and task of this process."""
        return self.tasks[self.rank]

    @property
    def fingerprint(self) -> str:
        """A string that all processes of this cluster have in common, and no other cluster has."""
        return hashlib.sha256(repr((self.addresses, self.tasks)).encode()).hexdigest()[:16]

    def spec(self) -> dict[str, list[str]]:
        """Returns the addresses by job, as `tf.train.ClusterSpec` takes them."""
        jobs: dict[str, list[str]] = {}
        for address, (job, _) in zip(self.addresses, self.tasks):
            jobs.setdefault(job, []).append(address)
        return jobs


def resolve_cluster(
    addresses: Sequence[str] | None = None, rank: int | None = None, *, port_base: int = 8888
) -> Cluster:
    """Finds the processes that train together: by arguments, else `TF_CONFIG`, else SLURM.

    Args:
        addresses: "host:port" of each process, by rank.
        rank: which of them this process is; to be given with `addresses`.
        port_base: under SLURM, the first port to use on each host.

    Raises:
        ClusterError: there is no description of the cluster, or it is inconsistent.

    Example:
        ```python
        cluster = resolve_cluster()
        flow = BatchData(ShardData(train, cluster.rank, cluster.size), 32)
        DistributedTrainer(TrainConfig(model=model, dataflow=flow), cluster).train()
        ```
    """
    if (addresses is None) != (rank is None):
        raise ClusterError("Give addresses= and rank= together, or neither.")
    if addresses is not None and rank is not None:
        return Cluster.of(addresses, rank)
    if os.environ.get("TF_CONFIG"):
        return _from_resolver(_tf_config_resolver, "TF_CONFIG")
    if "SLURM_PROCID" in os.environ and "SLURM_STEP_NUM_TASKS" in os.environ:
        return _from_resolver(lambda: _slurm_resolver(port_base), "SLURM")
    raise ClusterError(
        "Nothing says which processes train together: there are no addresses= and rank=, no TF_CONFIG, and "
        "this is no step of a SLURM job. On one machine, start the script by "
        "`python -m towerpack_trainers launch --processes 2 script.py`."
    )


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of "host:port".

    Raises:
        ClusterError: it is something else.
    """
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClusterError(f'{address!r} is no address; expected "host:port", such as "10.0.0.1:2222".')
    return host.strip("[]"), int(port)


def _tf_config_resolver() -> Any:
    return tf.distribute.cluster_resolver.TFConfigClusterResolver()


def _slurm_resolver(port_base: int) -> Any:
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    # The resolver divides GPUs among tasks, which SLURM itself does: as many as there may be, and none set.
    return tf.distribute.cluster_resolver.SlurmClusterResolver(
        jobs={"worker": tasks}, port_base=port_base, gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
    )


def _from_resolver(make: Callable[[], Any], source: str) -> Cluster:
    try:
        resolver = make()
        jobs: Mapping[str, Sequence[str]] = resolver.cluster_spec().as_dict()
        job, index = resolver.task_type, resolver.task_id
        if source == "SLURM":
            job, index = resolver.get_task_info()
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, OSError) as error:
        raise ClusterError(f"{source} describes no cluster: {type(error).__name__}: {error}.") from error
    if not jobs:
        raise ClusterError(f"{source} describes no cluster: it names no processes.")
    return _ranked(jobs, str(job), index, source)


def _ranked(jobs: Mapping[str, Sequence[str]], job: str, index: int | None, source: str) -> Cluster:
    foreign = sorted(set(jobs) - set(_TRAINING_JOBS))
    if job not in _TRAINING_JOBS:
        raise ClusterError(
            f"{source} makes this process {job!r} number {index}, which does not train. Start this script "
            "for chief and workers alone: there are no parameter servers, and the chief evaluates."
        )
    if "ps" in foreign:
        raise ClusterError(
            f"{source} names parameter servers. All processes train here and exchange gradients directly; "
            "leave the job 'ps' out."
        )
    tasks = [(name, number) for name in _TRAINING_JOBS for number in range(len(jobs.get(name, ())))]
    addresses = [_without_scheme(jobs[name][number]) for name, number in tasks]
    if (job, index) not in tasks:
        raise ClusterError(
            f"{source} makes this process {job!r} number {index}, but its cluster is {dict(jobs)}."
        )
    return Cluster(tuple(addresses), tasks.index((job, index or 0)), tuple(tasks))


def _without_scheme(address: str) -> str:
    return address.partition("://")[2] or address
