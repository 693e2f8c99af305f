"""Trainers whose replicas live in processes of their own, on one host or many."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, StopTraining
from towerpack_layers import TowerContext

from .._single_cost import SingleCostTrainer
from ..config._train_config import TrainConfig
from ..session._session_options import create_session
from ..towers._single_device_builder import SingleDeviceBuilder
from ._distributed_errors import PeerLostError, RanksDifferError, describe_error
from ._translate_position import Reshard, for_processes, own_position
from .cluster import Cluster, resolve_cluster
from .exchange import (
    STOPPED,
    AverageOverProcesses,
    CollectiveCommunicator,
    Communicator,
    MPICommunicator,
    broadcast_variables,
)

__all__ = ["DistributedTrainer", "ExchangeTrainer", "MPITrainer"]

_log = logging.getLogger("towerpack_trainers")


class ExchangeTrainer(SingleCostTrainer):
    """Trains one replica per process, in step: averaged gradients, the same update everywhere.

    Each process has variables, data and an optimizer of its own. All start with the chief's values and apply
    the same averaged gradients, so they stay equal. The chief (rank 0) alone writes files, restores
    checkpoints and runs callbacks that are `chief_only`; what it restored, the others get from it.

    Args:
        config: the training, the same in all processes but for the data: each needs a shard of its own.
        communicator: the processes. It is left when the training ends.
        reshard: for a resume with another number of processes; see `docs/distributed.md`.

    Raises:
        RanksDifferError: (in `train`) the processes do not train the same thing.
        PeerLostError: (in `train`) another process died, fell silent or failed.
    """

    def __init__(
        self, config: TrainConfig, communicator: Communicator, reshard: Reshard | None = None
    ) -> None:
        self.communicator = communicator
        self.is_chief = communicator.group.is_chief
        self._reshard = reshard
        with self._telling_others():
            super().__init__(_silent(config) if self._is_silent(config) else config)
        _log.info(
            "%d processes, each with a batch of its own: one step trains on %d datapoints.",
            communicator.size,
            communicator.size,
        )

    def _is_silent(self, config: Any) -> bool:
        return not self.is_chief and isinstance(config, TrainConfig)

    # ---- the graph

    def _choose_seed(self) -> int:
        seed: int = self.communicator.group.share(super()._choose_seed() if self.is_chief else None)
        return seed

    def training_context(self, index: int = 0, num_towers: int = 1) -> TowerContext:
        """The tower context; random layers draw differently in each process."""
        context = super().training_context(index, num_towers)
        return attrs.evolve(context, random_seed=_mixed(self.seed, self.communicator.rank))

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        exchange = AverageOverProcesses(self.communicator)
        builder = SingleDeviceBuilder(_mixed(self.seed, self.communicator.rank), exchange)
        make_optimizer = self.config.make_optimizer
        train_op = builder.build(self.tower_func, self.source.get_input_tensors, make_optimizer)
        (self._farewell,) = exchange.stops
        # Now, since what callbacks add is their own: some of them are in the chief alone.
        self._common_variables = list(tf.global_variables())
        self._broadcast = broadcast_variables(self._common_variables, self.communicator)
        return train_op

    # ---- the start

    def train(self) -> None:
        """Trains in step with the other processes; see `Trainer.train`.

        Raises:
            PeerLostError: another process died, fell silent or failed; the message names it.
            RanksDifferError: the processes do not train the same thing.
            Exception: whatever `Trainer.train` raises. The others stop then, and name this process.
        """
        if not self._started:
            with self._telling_others():
                self._set_up()
                self._agree()
        with self._telling_others():
            try:
                super().train()
            except Exception as error:
                lost = self._who_is_lost(error)
                if lost is None or lost is error:
                    raise
                raise lost from error
        self.communicator.close()

    def _agree(self) -> None:
        assert self.source is not None
        variables = {v.op.name: [v.shape.as_list(), v.dtype.base_dtype.name] for v in self._common_variables}
        mine = {
            "the last epoch": self.config.max_epoch,
            "the steps of an epoch": self.loop.steps_per_epoch,
            "the datapoints in a pass of its data": self.source.size(),
            "the variables": variables,
        }
        group = self.communicator.group
        difference = _first_difference(group.gather(mine), group.names)
        if difference is not None:
            # Else one that has heard of it leaves while others still wait to hear, and they only see it go.
            with contextlib.suppress(PeerLostError):
                group.barrier()
            raise difference

    def _create_session(self) -> tf.Session:
        config = self.communicator.prepare(self._session_config())
        return create_session(self.graph, config, self.communicator.target, self._initial_values())

    def _restore(self) -> None:
        group, saved = self.communicator.group, None
        if self._checkpoint is not None and "loop" in self._checkpoint.state:
            saved = self._checkpoint.state
            self._checkpoint = attrs.evolve(self._checkpoint, state=self._translated(saved))
        super()._restore()
        with group.interruptible(0, self.sess.close):
            self.sess.run(self._broadcast)
        everywhere = Callbacks([cb for cb in self.callbacks if not cb.chief_only])
        shared = group.share(saved and {**saved, "callbacks": everywhere.state_dict()})
        if shared is not None and not self.is_chief:
            state = self._translated(shared)
            self.loop.load_state_dict(state["loop"])
            self.callbacks.load_state_dict(state["callbacks"])
            if self.source is not None and state.get("input"):
                self._restore_input(own_position(state["input"], self.source.state_dict()))

    def _translated(self, state: dict[str, Any]) -> dict[str, Any]:
        return for_processes(
            state, self.communicator.rank, self.communicator.size, self.loop.steps_per_epoch, self._reshard
        )

    def state_dict(self) -> dict[str, Any]:
        """What `Trainer.state_dict` holds, and how many processes there are."""
        return {**super().state_dict(), "processes": self.communicator.size}

    # ---- steps

    def run_step(self) -> None:
        """Runs one step; it ends early if another process is lost meanwhile."""
        with self.communicator.group.interruptible(self.loop.global_step, self.sess.close):
            super().run_step()

    def _run_loop(self) -> None:
        loop = self.loop
        epochs = self.config.max_epoch - loop.starting_epoch + 1
        last = loop.global_step + epochs * loop.steps_per_epoch - loop.starting_step
        try:
            super()._run_loop()
        except (StopTraining, tf.errors.OutOfRangeError) as reason:
            ended = isinstance(reason, tf.errors.OutOfRangeError)
            if ended and (self.source is None or self.source.infinite):
                raise
            if loop.global_step < last:
                self._bid_farewell("its input has ended" if ended else str(reason))
            raise

    def _bid_farewell(self, reason: str) -> None:
        """Lets the others, who are about to make another step, stop where this process stops."""
        group = self.communicator.group
        group.announce_stop(reason)
        with group.interruptible(self.loop.global_step, self.sess.close):
            self.sess.run(self._farewell)

    # ---- the end

    def _train_and_clean_up(self) -> None:
        super()._train_and_clean_up()
        # Nobody leaves while another one may still be in the last exchange.
        self.communicator.group.barrier()

    def _explain(self, caught: BaseException) -> BaseException | None:
        group = self.communicator.group
        if isinstance(caught, tf.errors.InvalidArgumentError) and STOPPED in str(caught):
            _log.info("Training stops at step %d: %s", self.loop.global_step, group.reason_of_stop())
            return None
        error: BaseException | None = self._who_is_lost(caught) or super()._explain(caught)
        if error is not None:
            # At once: what callbacks do at the end may take long.
            self.communicator.close(describe_error(error))
        return error

    def _who_is_lost(self, caught: BaseException) -> PeerLostError | None:
        if isinstance(caught, PeerLostError):
            return caught
        if not isinstance(caught, _OF_EXCHANGES) and "closed Session" not in str(caught):
            return None
        group = self.communicator.group
        try:
            group.check()
            if self.coord.should_stop():  # it is the input that failed
                return None
            group.wait_for_lost_peer()
        except PeerLostError as lost:
            return lost
        return None

    @contextlib.contextmanager
    def _telling_others(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.communicator.close(describe_error(error))
            raise


@final
class DistributedTrainer(ExchangeTrainer):
    """Trains on several hosts, or in several processes of one, by TensorFlow's own collectives.

    Args:
        config: the training; the same in all processes but for the data, of which each needs a shard.
        cluster: who takes part; None: what `resolve_cluster()` finds. Or a `CollectiveCommunicator`, to
            choose its time-outs.
        reshard: how a position in the data is translated when a training goes on with another number of
            processes, such as `towerpack_dataflow.reshard`.

    Example:
        ```python
        cluster = resolve_cluster()
        flow = BatchData(ShardData(train, cluster.rank, cluster.size), 32)
        DistributedTrainer(TrainConfig(model=model, dataflow=flow, resume="auto"), cluster).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        cluster: Cluster | CollectiveCommunicator | None = None,
        reshard: Reshard | None = None,
    ) -> None:
        if not isinstance(cluster, CollectiveCommunicator):
            cluster = CollectiveCommunicator(resolve_cluster() if cluster is None else cluster)
        super().__init__(config, cluster, reshard)


@final
class MPITrainer(ExchangeTrainer):
    """Trains in the processes that `mpiexec` has started. Needs the extra `mpi`.

    Args:
        config: as for `DistributedTrainer`.
        comm: an `mpi4py.MPI.Comm`; None: all processes. Or an `MPICommunicator`, to choose its time-outs.
        reshard: as for `DistributedTrainer`.

    Raises:
        MissingExtraError: mpi4py is not installed.
    """

    def __init__(self, config: TrainConfig, comm: Any = None, reshard: Reshard | None = None) -> None:
        super().__init__(
            config, comm if isinstance(comm, MPICommunicator) else MPICommunicator(comm), reshard
        )


_OF_EXCHANGES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)

_SHARDS = (
    "Each step takes one from every process, so shards must be of one length: cut the whole to a multiple, "
    "as ShardData(FixedSizeData(flow, n * size), rank, size) does."
)
_REMEDIES = {
    "the datapoints in a pass of its data": _SHARDS,
    "the steps of an epoch": _SHARDS,
    "the variables": "All must build the same model, in the same order.",
    "the last epoch": "All must be given the same max_epoch.",
}


def _silent(config: TrainConfig) -> TrainConfig:
    """The configuration of a process that writes and restores nothing itself."""
    return attrs.evolve(config, log_dir=None, monitors=[], resume=None, session_init=None)


def _mixed(seed: int, rank: int) -> int:
    """A seed for each process; the chief's is the training's own."""
    if not rank:
        return seed
    digest = hashlib.sha256(f"{seed}/{rank}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def _first_difference(told: list[dict[str, Any]], names: Sequence[str]) -> RanksDifferError | None:
    """The first thing in which a process differs from the chief; None if they train the same."""
    first, *others = told
    for rank, other in enumerate(others, start=1):
        for what, value in first.items():
            if value != other[what]:
                return RanksDifferError(
                    f"{names[rank]} differs from {names[0]} in {what}: {_difference(other[what], value)}. "
                    f"{_REMEDIES.get(what, '')}"
                )
    return None


def _difference(theirs: Any, chiefs: Any) -> str:
    if not isinstance(theirs, dict) or not isinstance(chiefs, dict):
        return f"{theirs} instead of {chiefs}"
    names = sorted(set(theirs) ^ set(chiefs)) or [name for name in theirs if theirs[name] != chiefs[name]]
    return (
        ", ".join(f"{name}: {theirs.get(name)} instead of {chiefs.get(name)}" for name in names[:5])
        or "their order"
    )
