"""The processes of a training: their addresses, from `TF_CONFIG`, SLURM or arguments, and their secret."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..._errors import ClusterError

__all__ = ["TOKEN_VARIABLE", "Cluster", "is_loopback", "make_token", "resolve_cluster", "resolve_token"]


TOKEN_VARIABLE = "TOWERPACK_TOKEN"
_SHORTEST = 16


def make_token() -> str:
    """Returns a new random token, which cannot be guessed."""
    return secrets.token_hex(16)


def resolve_token(token: str | None, hosts: Iterable[str]) -> str:
    """Returns the token of a cluster: the given one, else that of the environment.

    Args:
        token: the token, if the caller has one.
        hosts: the host of each process. If all are loopback addresses, a token is optional.

    Returns:
        The token; empty if there is none.

    Raises:
        ClusterError: a required token is missing, or the token is too short.
    """
    source = f"{TOKEN_VARIABLE} in the environment" if token is None else "token="
    chosen = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()
    if chosen and len(chosen) < _SHORTEST:
        raise ClusterError(
            f"{source} has {len(chosen)} characters; expected at least {_SHORTEST}, so that it cannot be "
            "guessed. Make one with `openssl rand -hex 16`."
        )
    remote = next((host for host in hosts if not is_loopback(host)), None)
    if not chosen and remote is not None:
        raise ClusterError(
            f"These processes connect over a network (one of them is at {remote!r}), where strangers could "
            f"connect as well. Set {TOKEN_VARIABLE} in the environment of all of them to the same secret, "
            "such as the output of one `openssl rand -hex 16`; or pass token= to the communicator."
        )
    return chosen


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address always refers to the local host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("10.0.0.1")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Kubernetes' TFJob uses either name for its first replica, which is rank 0.
_CHIEFS = ("chief", "master")
_TRAINING_JOBS = (*_CHIEFS, "worker")


@final
@attrs.frozen
class Cluster:
    """The processes of one training, and the rank of this process.

    Args:
        addresses: "host:port" of each process, by rank; the same list in all processes.
        rank: the number of this process; 0 is the chief, the only one that writes files.
        tasks: TensorFlow's name of each process, such as ("worker", 0).

    Raises:
        ClusterError: an address or the rank is invalid.

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
        """Makes a cluster of workers from their addresses."""
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
                f"The cluster's addresses {list(self.addresses)} are not distinct; expected a different port "
                "for each process of a host."
            )
        if not isinstance(self.rank, int) or not 0 <= self.rank < self.size:
            raise ClusterError(
                f"rank={self.rank!r} of a cluster of {self.size}: expected 0 to {self.size - 1}."
            )

    @property
    def size(self) -> int:
        """The number of processes in the training."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief, which writes the files."""
        return self.rank == 0

    @property
    def task(self) -> tuple[str, int]:
        """The TensorFlow job and task of this process."""
        return self.tasks[self.rank]

    @property
    def fingerprint(self) -> str:
        """A string that is equal in all processes of this cluster, and different in other clusters."""
        return hashlib.sha256(repr((self.addresses, self.tasks)).encode()).hexdigest()[:16]

    def spec(self) -> dict[str, list[str]]:
        """Returns the addresses by job, in the form of `tf.train.ClusterSpec`."""
        jobs: dict[str, list[str]] = {}
        for address, (job, _) in zip(self.addresses, self.tasks):
            jobs.setdefault(job, []).append(address)
        return jobs


def resolve_cluster(
    addresses: Sequence[str] | None = None, rank: int | None = None, *, port_base: int = 8888
) -> Cluster:
    """Returns the cluster described by the arguments, else by `TF_CONFIG`, else by SLURM.

    Args:
        addresses: "host:port" of each process, by rank.
        rank: the rank of this process; required with `addresses`.
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
        raise ClusterError("Pass both addresses= and rank=, or neither.")
    if addresses is not None and rank is not None:
        return Cluster.of(addresses, rank)
    if os.environ.get("TF_CONFIG"):
        return _from_resolver(tf.distribute.cluster_resolver.TFConfigClusterResolver, "TF_CONFIG")
    if "SLURM_PROCID" in os.environ and "SLURM_STEP_NUM_TASKS" in os.environ:
        return _from_resolver(lambda: _slurm_resolver(port_base), "SLURM")
    raise ClusterError(
        "No cluster is described: there are no addresses= and rank=, no TF_CONFIG, and no SLURM job step. "
        "On one machine, start the script with "
        "`python -m towerpack_trainers launch --processes 2 script.py`."
    )


def split_address(address: str) -> tuple[str, int]:
    """Splits "host:port" into host and port.

    Raises:
        ClusterError: the address has another form.
    """
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClusterError(f'{address!r} is not an address; expected "host:port", such as "10.0.0.1:2222".')
    return host.strip("[]"), int(port)


def _slurm_resolver(port_base: int) -> Any:
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    # SLURM itself divides GPUs among tasks. These arguments keep the resolver from doing so.
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
        raise ClusterError(f"{source} is no valid cluster: {type(error).__name__}: {error}.") from error
    if not jobs:
        raise ClusterError(f"{source} is no valid cluster: it has no processes.")
    return _ranked(jobs, str(job), index, source)


def _ranked(jobs: Mapping[str, Sequence[str]], job: str, index: int | None, source: str) -> Cluster:
    foreign = sorted(set(jobs) - set(_TRAINING_JOBS))
    if job not in _TRAINING_JOBS:
        raise ClusterError(
            f"{source} makes this process {job!r} number {index}, which does not train. Start this script "
            "only for chief and workers: there are no parameter servers, and the chief evaluates."
        )
    if "ps" in foreign:
        raise ClusterError(
            f"{source} names parameter servers. All processes train here and exchange gradients directly; "
            "remove the job 'ps'."
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
