"""A replica for evaluation, with a separate input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_inputsource import FeedInput, InputSource

from ._batch_calls import BatchCalls, BatchCopies
from ._tower import Tower, ended_apart_from

__all__ = ["EvaluationProgress", "EvaluationTower", "ParallelEvaluation", "round_robin"]


@final
class EvaluationProgress:
    """The progress of the current evaluation.

    Args:
        name: the name of the tower.
        source: its input.

    Attributes:
        name: the given name.
        source: the given input.
        began: the start of the evaluation, by `time.monotonic()`.
        batches: the number of evaluated batches.
        newest: the time of the latest batch, or the start of the evaluation.
    """

    def __init__(self, name: str, source: InputSource) -> None:
        self.name, self.source = name, source
        self.batches, self.began = 0, time.monotonic()
        self.newest = self.began

    def count(self) -> None:
        """Counts a batch."""
        self.batches, self.newest = self.batches + 1, time.monotonic()


@final
class EvaluationTower:
    """Runs a tower over one pass of its input; a `towerpack_callbacks.InferenceTower`.

    The hooks of its input run only in these passes, never with a training step.

    Args:
        tower: the replica.
        source: its input; it ends after each pass.
        fed_at: the tower's inputs, keyed by the references of the source's tensors.
        several: whether a session call may evaluate several batches: the source is a `FeedInput` of this
            tower, and its tensors are the tower's inputs.

    Attributes:
        progress: the progress of the current evaluation; None between evaluations.
    """

    progress: EvaluationProgress | None = None

    def __init__(
        self, tower: Tower, source: InputSource, fed_at: Mapping[Any, tf.Tensor], several: bool = False
    ) -> None:
        self._fed_at, self._inputs = fed_at, list(fed_at.values())
        self._ahead = source if several and isinstance(source, FeedInput) else None
        self._copies: list[BatchCopies] = []
        self._tower = tower
        self._source = source
        self._hooks = source.hooks()
        self.sess: tf.Session = None  # until `start`
        # The tensors of the last evaluation, and its session call: preparing one takes time.
        self._last: tuple[Any, _BatchCall] | None = None
        first = next(iter(tower.inputs.values()))
        # Inputs without a batch dimension count as one example.
        self._batch_size = tf.constant(1) if first.shape.rank == 0 else tf.shape(first)[0]
        for hook in self._hooks:
            hook.begin()

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors of this replica by their names in the model, and prepares to evaluate them."""
        tensors = self._tower.get_tensors(names)
        if tensors and self._ahead is not None and self._copies_for(tensors) is None:
            copies = BatchCopies.of(self._inputs, tensors, f"{self._tower.context.name}/batch")
            self._copies += [] if copies is None else [copies]
        return tensors

    def _copies_for(self, tensors: Sequence[tf.Tensor]) -> BatchCopies | None:
        """Returns copies with all these tensors, if there are any."""
        names = {tensor.name for tensor in tensors}
        return next((each for each in self._copies if names <= each.names), None)

    def start(self, sess: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the input in a session."""
        self.sess, self._coord, self._last = sess, coord, None
        for hook in self._hooks:
            hook.after_create_session(sess, coord)

    def stop(self) -> None:
        """Stops the input, before the session is closed."""
        for hook in self._hooks:
            hook.end(self.sess)

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input; see `towerpack_callbacks.InferenceTower`."""
        self.restart()
        try:
            fetched = fetches if self._ahead is not None else self.with_batch_size(fetches)
            wanted = tf.nest.map_structure(lambda each: each, fetched)
            if self._last is None or _identities(self._last[0]) != _identities(wanted):
                self._last = wanted, self._prepare(wanted)
            yield from self._batches(*self._last)
        finally:
            self.progress = None

    def _prepare(self, wanted: Any) -> _BatchCall:
        flat = tf.nest.flatten(wanted)
        known = self._ahead is not None and all(isinstance(each, tf.Tensor) for each in flat)
        return _BatchCall(self.sess, wanted, self._copies_for(flat) if known else None)

    def _batches(self, wanted: Any, call: _BatchCall) -> Iterator[tuple[Any, int]]:
        progress = self.progress = self.new_progress()
        try:
            for values, batch_size in self._results(wanted, call):
                progress.count()
                yield values, int(batch_size)
        except tf.errors.OutOfRangeError as error:
            # A failure in the input's thread also ends the input.
            self._coord.raise_requested_exception()
            if ended_apart_from(self._tower.inputs.values(), error, self._tower.graph) is not None:
                raise  # not the input, but the model's own data

    def _results(self, wanted: Any, call: _BatchCall) -> Iterator[Any]:
        while True:
            if self._ahead is None:
                yield self._run(wanted, call)
            else:
                batches = self._ahead.next_feeds(call.most)
                # Fetching the size as well would take a tenth of the time of a small batch.
                yield from zip(call.several(self._inputs, batches), map(_batch_size_of, batches))

    def new_progress(self) -> EvaluationProgress:
        """Returns the progress of an evaluation that begins now."""
        return EvaluationProgress(self._tower.context.name, self._source)

    def restart(self) -> None:
        """Begins a new pass of the input."""
        self._source.reset_state()

    def with_batch_size(self, fetches: Any) -> list[Any]:
        """Returns the fetches of one batch, with the number of examples in it."""
        return [fetches, self._batch_size]

    def next_feeds(self) -> dict[Any, Any] | None:
        """Returns the feeds of the next batch, for callers that run the session; None at the end."""
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs([]), self.sess)
        try:
            args = [hook.before_run(context) for hook in self._hooks]
        except tf.errors.OutOfRangeError:
            return None
        return {self._fed_at[tensor.ref()]: value for tensor, value in _feeds_of(args).items()}

    def _run(self, wanted: Any, call: _BatchCall) -> Any:
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs(wanted), self.sess)
        args = [hook.before_run(context) for hook in self._hooks]
        results = call(_feeds_of(args))
        for hook in self._hooks:
            hook.after_run(context, tf.train.SessionRunValues(None, None, None))
        return results


def _batch_size_of(arrays: Sequence[np.ndarray]) -> int:
    """Returns the number of examples in a batch, from the arrays of all inputs."""
    return len(arrays[0]) if arrays[0].ndim else 1


def _identities(wanted: Any) -> Any:
    # Tensors of graphs have no other equality in all modes of TensorFlow; a caller may change its list.
    return tf.nest.map_structure(id, wanted)


@final
class _BatchCall:
    """Evaluates a batch like `Session.run`, which rebuilds its fetches and feeds in Python at each call.

    Args:
        sess: the session.
        wanted: the tensors to compute, in a structure.
        copies: copies of these tensors, for calls with several batches; None: always one.
    """

    def __init__(self, sess: tf.Session, wanted: Any, copies: BatchCopies | None = None) -> None:
        self._sess, self._wanted, self._copies = sess, wanted, copies
        self._batches: BatchCalls | None = None
        # The tensors that a call feeds are kept, so that no other object gets the identities in the key.
        self._calls: dict[tuple[int, ...], tuple[list[Any], Callable[[Any], Iterator[Any]]]] = {}

    def __call__(self, feeds: Mapping[Any, Any]) -> Any:
        """Returns the values of a batch in the structure of `wanted`.

        Args:
            feeds: the values to feed, by their tensors.
        """
        values = [
            np.asarray(value, tensor.dtype.as_numpy_dtype) if isinstance(tensor, tf.Tensor) else value
            for tensor, value in feeds.items()
        ]
        return next(self.several(list(feeds), [values]))

    @property
    def most(self) -> int:
        """The number of batches that the next call of `several` can use."""
        return 1 if self._batches is None else self._batches.most

    def several(self, fed: list[Any], batches: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """Yields the values of several batches.

        Args:
            fed: the tensors to feed.
            batches: for each batch, the values of these tensors, as arrays of their dtypes.
        """
        key = tuple(map(id, fed))
        if key not in self._calls:
            self._calls[key] = fed, self._compile(fed)
        return self._calls[key][1](batches)

    def _compile(self, fed: list[Any]) -> Callable[[Any], Iterator[Any]]:
        flat = tf.nest.flatten(self._wanted)
        if not all(isinstance(tensor, tf.Tensor) for tensor in (*flat, *fed)):
            return lambda batches: (
                self._sess.run(self._wanted, dict(zip(fed, values))) for values in batches
            )
        calls = self._batches = BatchCalls.of(self._sess, fed, flat, self._copies)
        places = tf.nest.pack_sequence_as(self._wanted, range(len(flat)))
        if places == [list(range(len(flat)))]:  # one inferencer
            return lambda batches: ([found] for found in calls(batches))
        return lambda batches: (_filled(places, found) for found in calls(batches))


def _filled(places: Any, found: list[Any]) -> Any:
    """Returns a structure with values in place of their positions in `found`."""
    if type(places) is list:  # by far faster than TensorFlow's function
        return [found[place] if type(place) is int else _filled(place, found) for place in places]
    if isinstance(places, int):
        return found[places]
    return tf.nest.map_structure(found.__getitem__, places)


@final
class ParallelEvaluation:
    """Several towers that evaluate one flow together; a `towerpack_callbacks.InferenceTower`.

    In each round, every tower gets the next datapoint, and one session call runs all towers; in the last
    round, only those with a datapoint. So each datapoint is seen once, and results are in the order of the
    flow.

    Args:
        towers: the towers, over the flows of `round_robin`, in order.
    """

    def __init__(self, towers: Sequence[EvaluationTower]) -> None:
        self._towers = towers
        # The tensors of all towers, keyed by that of the first.
        self._alike: dict[Any, list[tf.Tensor]] = {}

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors of the first replica; `evaluate` finds those of the others."""
        by_tower = [tower.get_tensors(names) for tower in self._towers]
        for alike in zip(*by_tower):
            self._alike[alike[0].ref()] = list(alike)
        return by_tower[0]

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the flow; see `towerpack_callbacks.InferenceTower`."""
        flat = [self._alike[tensor.ref()] for tensor in tf.nest.flatten(fetches)]
        wanted = [
            tower.with_batch_size(tf.nest.pack_sequence_as(fetches, [alike[index] for alike in flat]))
            for index, tower in enumerate(self._towers)
        ]
        for tower in self._towers:
            tower.restart()
        progress = self._towers[0].progress = self._towers[0].new_progress()
        try:
            yield from self._rounds(wanted, progress)
        finally:
            self._towers[0].progress = None

    def _rounds(self, wanted: list[Any], progress: EvaluationProgress) -> Iterator[tuple[Any, int]]:
        sess = self._towers[0].sess
        calls = [_BatchCall(sess, wanted[:count]) for count in range(len(wanted) + 1)]
        while True:
            feeds = list(self._next_round())
            if feeds:
                merged = {tensor: value for fed in feeds for tensor, value in fed.items()}
                for values, batch_size in calls[len(feeds)](merged):
                    progress.count()
                    yield values, int(batch_size)
            if len(feeds) < len(self._towers):
                return

    def _next_round(self) -> Iterator[dict[Any, Any]]:
        """Yields the feeds of each tower, up to the end of the pass."""
        for tower in self._towers:
            feeds = tower.next_feeds()
            if feeds is None:
                return
            if tower is not self._towers[-1]:  # the flow may reuse their memory for the next datapoint
                feeds = {tensor: np.array(value) for tensor, value in feeds.items()}
            yield feeds


def round_robin(flow: Iterable[Any], count: int) -> list[Iterable[Any]]:
    """Makes flows with iterators that share one pass of `flow`: each takes the next datapoint.

    A new pass begins when the first of them is iterated again.
    """
    shared = _SharedPass(flow)
    return [_SharedPassReader(shared, first=not index) for index in range(count)]


@final
class _SharedPass:
    """The iterator that several readers share."""

    def __init__(self, flow: Iterable[Any]) -> None:
        self.flow = flow
        self.datapoints: Iterator[Any] = iter(())


@final
class _SharedPassReader:
    """One of several readers of a shared pass.

    Attributes:
        reads: the flow, only for the first reader; its source then holds the flow for all: a flow has one
            reader.
    """

    def __init__(self, shared: _SharedPass, first: bool) -> None:
        self._shared = shared
        self._first = first
        if first:
            self.reads = shared.flow

    def reset_state(self) -> None:
        if self._first and hasattr(self._shared.flow, "reset_state"):
            self._shared.flow.reset_state()

    def __iter__(self) -> Iterator[Any]:
        if self._first:
            self._shared.datapoints = iter(self._shared.flow)
        return self._read()

    def _read(self) -> Iterator[Any]:
        while True:
            try:
                # Looked up each time: the first reader may have begun a new pass since this one was made.
                yield next(self._shared.datapoints)
            except StopIteration:
                return


def _feeds_of(args: Sequence[Any]) -> dict[Any, Any]:
    return {tensor: value for arg in args if arg and arg.feed_dict for tensor, value in arg.feed_dict.items()}
