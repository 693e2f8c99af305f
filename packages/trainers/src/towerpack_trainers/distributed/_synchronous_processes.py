"""Processes that train one model synchronously, and their trainers: equal variables, averaged gradients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, CheckpointError, LoopState, StopTraining
from towerpack_callbacks.checkpoint import state_from_json, state_to_json
from towerpack_inputsource import InputSource

from .._errors import ConfigError, PeerLostError, RanksDifferError, describe_error
from ..base._tower_trainer import SingleCostTrainer
from ..config import TrainConfig
from ..restore._run_state import RunState, StartingPoint
from ..session._process_strategy import ProcessStrategy, create_session
from .cluster._cluster import Cluster, resolve_cluster
from .exchange._average_over_processes import STOPPED, AverageOverProcesses, broadcast_variables
from .exchange._collective import CollectiveCommunicator
from .exchange._communicator import Communicator
from .exchange._mpi import MPICommunicator

__all__ = [
    "DistributedTrainer",
    "MPITrainer",
    "Reshard",
    "SynchronousProcesses",
    "find_difference",
    "for_processes",
    "own_position",
]

_log = logging.getLogger("towerpack_trainers")


_SHARDS = (
    "Each step takes one from every process, so all shards must have the same length: cut the whole flow "
    "to a multiple, as ShardData(FixedSizeData(flow, n * size), rank, size) does."
)
_REMEDIES = {
    "the datapoints in a pass of its data": _SHARDS,
    "the steps of an epoch": _SHARDS,
    "the variables": "All must build the same model, in the same order.",
    "the sums that layers take over all processes": "All must build the same model, in the same order.",
    "the last epoch": "All processes need the same max_epoch.",
}


def find_difference(
    fingerprints: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> RanksDifferError | None:
    """Returns an error for the first fact in which a process differs from the chief.

    Args:
        fingerprints: the fingerprint of each rank, as JSON values keyed by their descriptions.
        names: the names of the ranks in messages.

    Returns:
        None if all processes agree.
    """
    first, *others = fingerprints
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


# (state, was, index, count) → state: `towerpack_dataflow.reshard`
Reshard = Callable[[dict[str, Any], int, int, int], dict[str, Any]]


def for_processes(
    state: Mapping[str, Any], rank: int, size: int, steps_per_epoch: int, reshard: Reshard | None
) -> dict[str, Any]:
    """Translates a checkpoint's state into the state from which one process continues.

    Args:
        state: the state saved by the chief; its entry "processes" is the number of processes at that time.
        rank: the rank of this process.
        size: the current number of processes.
        steps_per_epoch: the current number of steps in an epoch.
        reshard: translates a position among the old shards into one among the current shards. None: positions
            are unchanged, which is exact if the total batch size is unchanged.
    """
    was = int(state.get("processes", 1))
    if was != size or rank:  # the entry describes the data of the chief, with the old number of processes
        state = {key: value for key, value in state.items() if key != "data"}
    if was == size or reshard is None:
        return dict(state)
    before = int(state["loop"]["steps_per_epoch"])
    done = (int(state["loop"]["local_step"]) + 1) * was // size
    loop = {**state["loop"], "local_step": done - 1, "steps_per_epoch": steps_per_epoch}
    if int(state["loop"]["local_step"]) + 1 >= before:
        loop["local_step"] = steps_per_epoch - 1
    translated = {**state, "loop": loop}
    flow = _flow_position(state)
    if flow is not None:
        translated["input"] = {**state["input"], "flow": reshard(flow, was, rank, size)}
    return translated


def own_position(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the chief's position in the data into that of another process.

    All processes are at the same index of their shards. Seeds and the descriptions of flows remain the
    process's own, since a user may choose different seeds and data. Resume marks of a stream are dropped,
    since they are valid in one shard only. Marks of batches are kept: they give the positions from which all
    processes continued with batches of another size.
    """
    flow, own = _flow_position({"input": theirs}), _flow_position({"input": mine})
    if flow is None or own is None:
        return dict(theirs)
    kept = {key: value for key, value in flow.items() if key not in ("seed", "seeds", "flow", "marks")}
    marks = {place: mark for place, mark in flow.get("marks", {}).items() if _batches_at(flow, place)}
    if marks:
        kept["marks"] = marks
    ours = {key: own[key] for key in ("seed", "seeds", "flow") if key in own}
    return {**theirs, "flow": {**kept, **ours}}


def _batches_at(flow: Mapping[str, Any], place: str) -> bool:
    return "batch_size" in flow.get("flow", {}).get(place, {})


def _flow_position(state: Mapping[str, Any]) -> dict[str, Any] | None:
    position = state.get("input") or {}
    flow = position.get("flow")
    return flow if isinstance(flow, dict) and {"epoch", "index"} <= set(flow) else None


_NOT_DIVIDED = (
    "The data are not divided: each of the %d processes reads its whole flow, with a different seed. "
    "Use ShardData(flow, rank, size) to give each process a shard, so that one pass over all processes "
    "has each datapoint once. A flow that divides its data itself sets the attribute sharded = True."
)

_NO_COMMON_STEP = (
    "Rank %d would continue in epoch %d at step %d, and rank 0 in epoch %d at step %d, because the rest of "
    "the epoch's data cannot be divided evenly among the processes in batches of this size. "
    "Use another batch size or number of processes, or resume a checkpoint of an epoch's end."
)

# The errors that TensorFlow raises when an exchange is interrupted.
_OF_EXCHANGES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)


@final
class SynchronousProcesses(ProcessStrategy):
    """Trains one replica per process, synchronously: averaged gradients, the same update everywhere.

    Each process has its own variables, data and optimizer. All start with the chief's values and apply the
    same averaged gradients, so they stay equal. Only the chief (rank 0) writes files, restores checkpoints
    and runs callbacks that are `chief_only`; it sends restored values to the others.

    Pass it to any trainer that sends its gradients through `gradient_exchange`: `SimpleTrainer`, or a trainer
    with `SingleDeviceBuilder(exchange=self.processes.gradient_exchange)`. A step with several exchanges
    begins with the one that was built first. Builders with this exchange also connect layers that need the
    batches of all processes, such as `BatchNorm(sync_statistics=True)`.

    Args:
        communicator: the connection to the processes. It is closed when the training ends.
        reshard: translates a position in the data when a training continues with another number of processes,
            such as `towerpack_dataflow.reshard`.

    Raises:
        RanksDifferError: (in `train`) the processes do not train the same model.
        PeerLostError: (in `train`) another process died, stopped responding or failed.

    Example:
        ```python
        communicator = CollectiveCommunicator(resolve_cluster())
        MyTrainer(config, processes=SynchronousProcesses(communicator)).train()
        ```
    """

    single_steps = True

    def __init__(self, communicator: Communicator, reshard: Reshard | None = None) -> None:
        self.communicator = communicator
        self.is_chief, self.rank = communicator.group.is_chief, communicator.group.rank
        self.gradient_exchange = self._exchange = AverageOverProcesses(communicator)
        self._group = communicator.group
        self._reshard = reshard
        self._common_variables: list[tf.Variable] = []
        self._broadcast: tf.Operation | None = None

    # ---- the graph

    def agree_on_seed(self, choose: Callable[[], int]) -> int:
        seed: int = self._group.share(choose() if self.is_chief else None)
        return seed

    def local_seed(self, seed: int) -> int:
        if self.is_chief:
            return seed
        digest = hashlib.sha256(f"{seed}/{self._group.rank}".encode()).digest()
        return int.from_bytes(digest[:4], "little") >> 1

    def add_ops(self, graph: tf.Graph) -> None:
        """Adds the op that sets all variables to the chief's values.

        Raises:
            ConfigError: the trainer has built no update with averaged gradients.
            TypeError: the dtype of a variable cannot be sent.
        """
        size = self._group.size
        if not self._exchange.stops:
            raise ConfigError(
                f"This trainer has not averaged any gradient over its {size} processes. Pass its gradients "
                "through processes.gradient_exchange, or use a builder that was made with "
                "exchange=processes.gradient_exchange."
            )
        with graph.as_default():
            # Before callbacks add their own variables: some callbacks exist in the chief alone.
            self._common_variables = list(tf.global_variables())
            self._broadcast = broadcast_variables(self._common_variables, self.communicator)
        _log.info("%d processes, one batch for each: one step trains on %d datapoints.", size, size)

    # ---- the start

    def check_agreement(self, loop: LoopState, source: InputSource | None) -> None:
        variables = {v.op.name: [v.shape.as_list(), v.dtype.base_dtype.name] for v in self._common_variables}
        fingerprints = {
            "the last epoch": loop.max_epoch,
            "the steps of an epoch": loop.steps_per_epoch,
            "the datapoints in a pass of its data": None if source is None else source.size(),
            "the variables": variables,
            "the sums that layers take over all processes": self._exchange.summed(),
        }
        difference = find_difference(self._group.gather(fingerprints), self._group.names)
        if difference is not None:
            # Otherwise, a process that detects the difference would leave while others still wait for it, and
            # these would report a lost peer instead.
            with contextlib.suppress(PeerLostError):
                self._group.barrier()
            raise difference
        if self.is_chief and self._group.size > 1 and source is not None and source.sharded is False:
            _log.warning(_NOT_DIVIDED, self._group.size)

    def create_session(self, graph: tf.Graph, options: tf.ConfigProto, start: StartingPoint) -> tf.Session:
        prepared = self.communicator.prepare(options)
        return create_session(graph, prepared, self.communicator.target, start.initial_values(graph))

    def restore(self, start: StartingPoint, sess: tf.Session, run: RunState) -> None:
        start.restore(sess, run, lambda state: self._translate(state, run))
        with self._group.interruptible(0, sess.close):
            sess.run(self._broadcast)
        everywhere = Callbacks([cb for cb in run.callbacks if not cb.chief_only])
        mine = {"callbacks": everywhere.state_dict(), "begins": _first_step(run.loop)}
        # Messages are JSON, which lacks some types of a state.
        shared = self._group.share(start.state and json.loads(state_to_json({**start.state, **mine})))
        if shared is not None and not self.is_chief:
            shared = state_from_json(json.dumps(shared))
            begins = shared.pop("begins")
            state = self._translate(shared, run)
            if run.source is not None and state.get("input"):
                state["input"] = own_position(state["input"], run.source.state_dict())
            run.load_state_dict(state)
            if _first_step(run.loop) != begins:
                raise CheckpointError(_NO_COMMON_STEP % (self.rank, *_first_step(run.loop), *begins))

    def _translate(self, state: Mapping[str, Any], run: RunState) -> dict[str, Any]:
        rank, size = self._group.rank, self._group.size
        if self._reshard is None or int(state.get("processes", 1)) == size:
            state = run.refit(state, size)
        return for_processes(state, rank, size, run.loop.steps_per_epoch, self._reshard)

    def state_dict(self) -> dict[str, Any]:
        return {"processes": self._group.size}

    # ---- steps

    def guard_step(self, run_step: Callable[[], Any], loop: LoopState, sess: tf.Session) -> Callable[[], Any]:
        def run_guarded_step() -> None:
            with self._group.interruptible(loop.global_step, sess.close):
                run_step()

        return run_guarded_step

    def announce_stop(self, reason: str, loop: LoopState, sess: tf.Session) -> None:
        self._group.announce_stop(reason)
        with self._group.interruptible(loop.global_step, sess.close):
            sess.run(self._exchange.stops[0])  # the others wait in the first exchange of their next step

    # ---- the end

    def translate_error(self, caught: BaseException, coord: tf.train.Coordinator) -> BaseException:
        if isinstance(caught, tf.errors.InvalidArgumentError) and STOPPED in str(caught):
            return StopTraining(self._group.reason_of_stop())
        return self._lost_peer(caught, coord) or caught

    def _lost_peer(self, caught: BaseException, coord: tf.train.Coordinator) -> PeerLostError | None:
        if isinstance(caught, PeerLostError):
            return caught
        if not isinstance(caught, _OF_EXCHANGES) and "closed Session" not in str(caught):
            return None
        try:
            self._group.check()
            if coord.should_stop():  # the input failed
                return None
            self._group.wait_for_lost_peer()
        except PeerLostError as lost:
            return lost
        return None

    def announce_failure(self, error: BaseException) -> None:
        self.communicator.close(describe_error(error))

    def leave(self) -> None:
        # No process leaves while another may still be in the last exchange.
        self._group.barrier()
        self.communicator.close()

    def failing_together(self, coord: tf.train.Coordinator) -> AbstractContextManager[Any]:
        return self._failing_together(coord)

    @contextlib.contextmanager
    def _failing_together(self, coord: tf.train.Coordinator) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            lost = self._lost_peer(error, coord) if isinstance(error, Exception) else None
            self.communicator.close(describe_error(lost or error))
            if lost is None or lost is error:
                raise
            raise lost from error


def _first_step(loop: LoopState) -> list[int]:
    """Returns the position where a loop begins: its epoch, from 1, and the step in it, from 0."""
    return [loop.starting_epoch, loop.starting_step]


@final
class DistributedTrainer(SingleCostTrainer):
    """Trains on several hosts, or in several processes of one, with TensorFlow's own collectives.

    Args:
        config: the training; the same in all processes except for the data, of which each process needs a
            shard. None: call `setup_graph`.
        cluster: the processes; None: the result of `resolve_cluster()`. Or a `CollectiveCommunicator`, to set
            its time-outs.
        reshard: translates a position in the data when a training continues with another number of processes,
            such as `towerpack_dataflow.reshard`.

    Raises:
        RanksDifferError: (in `train`) the processes do not train the same model.
        PeerLostError: (in `train`) another process died, stopped responding or failed.

    Example:
        ```python
        cluster = resolve_cluster()
        flow = BatchData(ShardData(train, cluster.rank, cluster.size), 32)
        DistributedTrainer(TrainConfig(model=model, dataflow=flow, resume="auto"), cluster).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        cluster: Cluster | CollectiveCommunicator | None = None,
        reshard: Reshard | None = None,
    ) -> None:
        if not isinstance(cluster, CollectiveCommunicator):
            cluster = CollectiveCommunicator(resolve_cluster() if cluster is None else cluster)
        self.communicator = cluster
        super().__init__(config, processes=SynchronousProcesses(cluster, reshard))


@final
class MPITrainer(SingleCostTrainer):
    """Trains in the processes that `mpiexec` has started. Needs the extra `mpi`.

    Args:
        config: as for `DistributedTrainer`.
        comm: an `mpi4py.MPI.Comm`; None: all processes. Or an `MPICommunicator`, to set its time-outs.
        reshard: as for `DistributedTrainer`.

    Raises:
        MissingExtraError: mpi4py is not installed.

    Example:
        ```python
        MPITrainer(config).train()  # in each process of `mpiexec -n 4 python train.py`
        ```
    """

    def __init__(
        self, config: TrainConfig | None = None, comm: Any = None, reshard: Reshard | None = None
    ) -> None:
        self.communicator = comm if isinstance(comm, MPICommunicator) else MPICommunicator(comm)
        super().__init__(config, processes=SynchronousProcesses(self.communicator, reshard))
