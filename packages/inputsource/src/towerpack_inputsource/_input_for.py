"""The data of trainings: the fastest input source for a flow, and memories for vector environments."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from towerpack_dataflow import (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)

from ._source import InputSource
from ._staging_input import StagingInput
from .prefetch._flow_reader import is_live
from .queued._queue_input import QueueInput

if TYPE_CHECKING:
    from towerpack_dataflow.envs import VectorEnvState
    from towerpack_dataflow.replay import ReplayBuffer, RolloutBuffer

__all__ = ["input_for", "memory_for", "rollout_for", "state_for"]

_log = logging.getLogger("towerpack_inputsource")

# A thread holds the interpreter lock for up to 5 ms while a finished step waits for it. If a datapoint takes
# less time than this limit, steps rarely wait; above it, the 0.1 ms for the transfer from a worker are
# cheaper.
_HOLDS_UP_STEPS = 1e-3
_SECONDS_TO_MEASURE, _MOST_TO_MEASURE = 0.1, 8


class _Head(NamedTuple):
    """The measured datapoints of a flow, to be given first.

    Attributes:
        given: the datapoints, or blocks of them, each with the flow's position after each of its datapoints.
        seconds: processor time per datapoint; 0 if unknown.
        error: the exception that the flow raised instead of the next datapoint; raised at that position.
        ended: whether the pass has no other datapoints.
    """

    given: list[tuple[Any, list[Any]]]
    seconds: float
    error: Exception | None
    ended: bool


@final
class MeasuredFlow:
    """An addressable flow that may move to a worker process after its first few datapoints.

    All measured datapoints are used, so functions of the flow do not run twice, and global random numbers are
    unaffected. The decision is made in the first pass, in the thread that starts it.

    Args:
        flow: the flow.
        reason_to_stay: returns the reason why a flow cannot be moved to a worker; None if it can.

    Attributes:
        reads: the flow.
    """

    def __init__(self, flow: Any, reason_to_stay: Callable[[Any], str | None]) -> None:
        self.reads = flow
        self._reason_to_stay = reason_to_stay
        self._now = flow
        self._lent = self._decided = False
        self._held: list[Any] | None = None  # the positions while datapoints of the head are given

    def __repr__(self) -> str:
        return repr(self._now)

    def __len__(self) -> int:
        return len(self._now)

    @property
    def fixed_batch_size(self) -> int | None:
        """The size of each batch, if the flow has one."""
        return getattr(self._now, "fixed_batch_size", None)

    @property
    def sharded(self) -> bool | None:
        """Whether the flow is one process's share of an order."""
        return getattr(self.reads, "sharded", None)

    @property
    def in_worker(self) -> bool:
        """Whether the flow was moved."""
        return self._now is not self.reads

    def seed(self, seed: int) -> None:
        """Seeds the flow."""
        self._now.seed(seed)

    def reset_state(self) -> None:
        """Prepares the flow for iteration."""
        self._now.reset_state()

    def lend_read_only(self) -> None:
        """Makes the flow lend its memory, in this process and in a worker."""
        self._lent = True
        self._now.lend_read_only()

    def state_dict(self) -> Any:
        """Returns the position after the last given datapoint: the same with and without a worker."""
        return self._now.state_dict() if self._held is None else self._held[-1]

    def load_state_dict(self, state: Any) -> None:
        """Makes the next pass start at a position."""
        self._held = None
        self._now.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        self._held = None
        datapoints = iter(self._now)
        return datapoints if self._decided else self._measured(datapoints, in_blocks=False)

    def iter_blocks(self, most: int, first: int) -> Iterator[Any] | None:
        """Starts the next pass in blocks, if the flow makes them; see `DataFlow.iter_blocks`."""
        self._held = None
        blocks = None if self.in_worker else self.reads.iter_blocks(most, first)
        return blocks if blocks is None or self._decided else self._measured(blocks, in_blocks=True)

    def last_states(self, count: int) -> list[Any]:
        """Returns the positions after each of the last `count` datapoints of a block."""
        states: list[Any] = self._now.last_states(count) if self._held is None else self._held[-count:]
        return states

    def _measured(self, items: Iterator[Any], in_blocks: bool) -> Iterator[Any]:
        """Returns a pass of datapoints, or of blocks of them, whose rest may come from a worker."""
        self._decided = True
        origin = self._now.state_dict()
        head, rest = self._measure(items, in_blocks), items
        slow = head.error is None and head.seconds >= _HOLDS_UP_STEPS
        if slow and self._moves(head.seconds) and not head.ended:
            rest = map(_block_of, self._now) if in_blocks else iter(self._now)
        self._held = [origin]
        return self._pass(head, rest)

    def _pass(self, head: _Head, rest: Iterator[Any]) -> Iterator[Any]:
        for item, positions in head.given:
            self._held = positions
            yield item
        if head.error is not None:
            raise head.error
        self._held = None
        yield from rest

    def _measure(self, items: Iterator[Any], in_blocks: bool) -> _Head:
        given: list[tuple[Any, list[Any]]] = []
        count = first = 0
        begin = computed = done = 0.0
        error, ended = None, False
        try:
            for item in items:
                positions = self._now.last_states(_length(item)) if in_blocks else [self._now.state_dict()]
                given.append((item, positions))
                count += len(positions)
                done = time.thread_time()
                if len(given) == 1:  # the first one opens files and imports modules
                    begin, computed, first = time.perf_counter(), done, count
                if count >= _MOST_TO_MEASURE or time.perf_counter() - begin > _SECONDS_TO_MEASURE:
                    break
            else:
                ended = True
        except Exception as caught:
            error = caught
        seconds = (done - computed) / (count - first) if count > first else 0.0
        return _Head(given, seconds, error, ended)

    def _moves(self, seconds: float) -> bool:
        """Moves the flow to a worker, which continues at its position; returns whether that is possible."""
        flow = self.reads
        work = f"Each datapoint of {flow!r} takes {1e3 * seconds:.1f} ms of processor time"
        if (reason := self._reason_to_stay(flow)) is not None:
            _log.info("%s, which delays training steps, but it stays in this process: %s.", work, reason)
            return False
        _log.info("%s, so it runs in a worker process. data=QueueInput(flow) keeps it in this one.", work)
        runner = MultiProcessRunner(flow, 1)
        runner.load_state_dict(flow.state_dict())
        if self._lent:
            runner.lend_read_only()
        self._now = runner
        return True


def _components(datapoint: Any) -> Iterable[Any]:
    return datapoint.values() if isinstance(datapoint, Mapping) else datapoint


def _length(block: Any) -> int:
    return len(next(iter(_components(block)), ()))


def _block_of(datapoint: Any) -> Any:
    """Returns a block with one datapoint."""
    stacks = [component[None] for component in _components(datapoint)]
    return dict(zip(datapoint, stacks)) if isinstance(datapoint, Mapping) else stacks


_PARALLEL = (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)
# A larger flow is not moved to a worker automatically, since it would be in memory twice.
_MOST_BYTES_TO_SEND = 2**28


def input_for(flow: Any, on_gpu: bool = False) -> InputSource:
    """Returns the fastest input source for a flow, as used by trainers for `dataflow=`.

    It is a `QueueInput`; for GPUs, a `StagingInput` around it, which copies to the device ahead of the step.
    A flow with Python work that would delay the training steps is moved to a worker process
    (`MultiProcessRunner(flow, 1)`): its datapoints, their order and its saved position are unchanged. The
    measurement uses the first datapoints of the training, so no datapoint is wasted. The move happens when
    the session starts, and is logged, if

    - the flow is addressable, so that the worker can continue after them,
    - each datapoint takes a millisecond or more of processor time,
    - the flow has no workers or threads yet,
    - the flow can be pickled and is smaller than 256 MB,
    - and a second processor is available.

    In the worker, the flow's functions use copies of this process's objects from the time of the move. To
    keep the flow in this process, or to use more workers, create the source explicitly: `QueueInput(flow)`,
    `QueueInput(MultiProcessRunner(flow, 4))`.

    Args:
        flow: a DataFlow, or another re-iterable object.
        on_gpu: whether the tensors are used on GPUs. (Not run on GPUs by our tests.)

    Raises:
        TypeError: the flow cannot be iterated again.
    """
    source = QueueInput(MeasuredFlow(flow, _reason_to_stay) if _may_move(flow) else flow)
    return StagingInput(source) if on_gpu else source


def _may_move(flow: Any) -> bool:
    """Returns whether a flow can be measured and a processor is available for a worker."""
    if not getattr(flow, "addressable", False) or is_live(flow) or _processors() < 2:
        return False
    return not any(isinstance(part, _PARALLEL) for part in _chain(flow))


def _chain(flow: Any) -> Iterator[Any]:
    """Yields the flow and the flows below it."""
    while flow is not None:
        yield flow
        flow = getattr(flow, "ds", None)


def _processors() -> int:
    """Returns the number of processors available to this process; macOS has no CPU affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reason_to_stay(flow: Any) -> str | None:
    """Returns the reason why a flow cannot be moved to a worker, or None if it can."""
    import cloudpickle

    sized = _SizeLimitedFile()
    try:
        cloudpickle.Pickler(sized, protocol=5, buffer_callback=sized.put).dump(flow)
    except _TooLargeError:
        return f"it holds more than {_MOST_BYTES_TO_SEND >> 20} MB, which a worker would duplicate"
    except Exception as error:  # pickling a user's objects may raise any error
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    return None


class _TooLargeError(Exception):
    """A pickle exceeds the limit for an automatic move."""


@final
class _SizeLimitedFile:
    """A file that counts the bytes written to it and discards them."""

    def __init__(self) -> None:
        self._bytes = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._add(size)
        return size

    def put(self, buffer: Any) -> None:
        self._add(buffer.raw().nbytes)

    def _add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > _MOST_BYTES_TO_SEND:
            raise _TooLargeError


def rollout_for(envs: Any, **options: Any) -> RolloutBuffer:
    """Returns an empty rollout for vector environments.

    Args:
        envs: a `gymnasium.vector.VectorEnv`.
        options: further arguments of `towerpack_dataflow.replay.RolloutBuffer`, such as `steps`.
    """
    from towerpack_dataflow.replay import RolloutBuffer

    spaces = envs.single_observation_space, envs.single_action_space
    return RolloutBuffer(*spaces, environments=envs.num_envs, **options)


def memory_for(envs: Any, capacity: int, *, seed: int | None = None, **options: Any) -> ReplayBuffer:
    """Returns an empty memory for vector environments, sampled uniformly.

    Args:
        envs: a `gymnasium.vector.VectorEnv`. With `frame_stack`, the first axis of its observations is that
            of the frames.
        capacity: the maximum number of transitions.
        seed: the seed of sampling.
        options: further arguments of `towerpack_dataflow.replay.ReplayBuffer`, such as `n_step`.
    """
    from towerpack_dataflow.replay import ReplayBuffer, UniformSampling

    observation: Any = envs.single_observation_space
    if options.get("frame_stack", 1) > 1:
        observation = observation.shape[1:], observation.dtype
    sampling = UniformSampling(seed=seed)
    return ReplayBuffer(observation, envs.single_action_space, capacity, sampling=sampling, **options)


def state_for(envs: Any) -> VectorEnvState:
    """Returns the state of vector environments, for exact resume."""
    from towerpack_dataflow.envs import VectorEnvState

    return VectorEnvState(envs)
