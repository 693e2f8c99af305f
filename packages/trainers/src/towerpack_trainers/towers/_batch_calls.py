"""Computes several small batches in one session call, if that is faster.

A session call takes as long as the forward pass of a small network. Copies of the pass, each with its own
inputs, share one call. They are plain ops without a loop, so batches and outputs may have any shapes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from .._errors import ConfigError
from ._copies_of_step import CONTROL_FLOW, StepCopies, uses_state
from ._devices import get_num_gpu
from ._predictor import FasterCall, compile_faster, compile_outputs

__all__ = ["READ_AHEAD", "BatchCalls", "BatchCopies"]

# Copying more takes longer than it saves, and a larger pass gains little.
_LARGEST_PASS = 100  # ops
# Reads and checks, which copies may repeat in any order.
_REPEATABLE = frozenset(
    {"CheckNumerics", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}
)


@final
class BatchCopies:
    """Copies of the ops between inputs and outputs, so that one session call computes several batches.

    Args:
        copies: makes copies of those outputs that depend on the inputs.
        copied: these outputs.
        inputs: the tensors that are fed with a batch.
        outputs: all tensors of a batch.
        name: the name scope of the copies, which gets a number.

    Attributes:
        COUNT: the number of batches; more gain nothing.
        inputs: the tensors to feed for all batches, in order.
        names: the names of the tensors of a batch.
    """

    COUNT: ClassVar[int] = 8

    def __init__(
        self,
        copies: StepCopies,
        copied: Sequence[tf.Tensor],
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
        name: str,
    ) -> None:
        self.inputs, self.names = list(inputs), {each.name for each in outputs}
        originals = [each.name for each in (*inputs, *copied)]
        # For each batch after the first, the copies by the names of their originals.
        self._copies: list[dict[str, tf.Tensor]] = []
        for number in range(1, self.COUNT):
            with copies.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
                fed = [tf.placeholder(each.dtype, each.shape, f"{name}{number}_input") for each in inputs]
            made = copies.once(f"{name}{number}", lambda _, fed=fed: fed)  # type: ignore[misc]
            self.inputs += fed
            self._copies.append(dict(zip(originals, [*fed, *made])))

    def outputs_of(self, outputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the tensors of all batches, in order, for some tensors of a batch."""
        copied = [copies.get(each.name, each) for copies in self._copies for each in outputs]
        return [*outputs, *copied]

    @classmethod
    def of(cls, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor], name: str) -> BatchCopies | None:
        """Copies a pass if its copies have the same effect in any order and may be faster; or returns None.

        It does not do so with GPUs, which run behind the host anyway.

        Args:
            inputs: the tensors that are fed with a batch.
            outputs: the tensors of a batch.
            name: see above.
        """
        fed = {each.op for each in inputs}
        if (
            not outputs
            or outputs[0].graph.finalized
            or get_num_gpu()
            or any(len(op.outputs) > 1 for op in fed)
        ):
            return None
        passed = find_ancestors(outputs, ends_at=lambda op: op in fed) - fed
        # Variables are read once for all batches.
        reads = {op for op in passed if op.type == "ReadVariableOp" and not op.control_inputs}
        copied = [each for each in outputs if each.op in passed - reads]
        if not copied or len(passed) > _LARGEST_PASS or not all(map(_is_repeatable, passed)):
            return None
        try:
            copies = StepCopies(copied, inputs, reads)
            copies.prepare()
        except ConfigError:
            return None
        return cls(copies, copied, inputs, outputs, name)


def _is_repeatable(op: tf.Operation) -> bool:
    if op.type in CONTROL_FLOW or "_XlaCompile" in op.node_def.attr:  # XLA would compile the copies together
        return False
    if any(tensor.dtype == tf.resource for tensor in op.outputs):
        return not op.inputs  # a variable
    return not uses_state(op) or op.type in _REPEATABLE


READ_AHEAD = 3 * BatchCopies.COUNT
"""The number of small datapoints that an evaluation or a predictor reads at a time: those of some calls."""

# A session call is a small part of a longer one.
_LONGEST_PASS = 1e-3  # seconds
# The number of single batches before several in a call are tried, since preparing that call takes time.
_SINGLES = 100
# The number of calls with several batches in the comparison, and of those among them that are not timed.
_CALLS, _FIRST_CALLS = 7, 2


@final
class BatchCalls:
    """Computes batches, each in a session call or several in one, as is faster.

    Args:
        single: computes the outputs of one batch, from one array for each input.
        together: given whether the calling thread runs the ops, makes the call for `BatchCopies.COUNT`
            batches, from the arrays of all of them; None if there are no copies.
    """

    def __init__(
        self, single: FasterCall, together: Callable[[bool], Callable[..., list[Any]]] | None
    ) -> None:
        self._single, self._make_together = single, together
        self._together: Callable[..., list[Any]] | None = None
        self._singles = self._calls = 0
        self._shortest = math.inf

    @classmethod
    def of(
        cls,
        sess: tf.Session,
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
        copies: BatchCopies | None,
    ) -> BatchCalls:
        """Makes the calls in a session.

        Args:
            sess: the session.
            inputs: tensors to feed, each once.
            outputs: tensors to compute.
            copies: copies of these outputs; None: always one batch.
        """
        single = compile_faster(sess, inputs, outputs)
        if copies is None:
            return cls(single, None)
        fed, wanted = copies.inputs, copies.outputs_of(outputs)
        return cls(single, lambda calling: compile_outputs(sess, fed, wanted, calling))

    @property
    def most(self) -> int:
        """The maximum number of batches in the next call."""
        if self._together is None and self._make_together is not None and self._singles >= _SINGLES:
            make, self._make_together = self._make_together, None
            if self._single.shortest < _LONGEST_PASS:
                self._together = make(self._single.has_other)
        return 1 if self._together is None else BatchCopies.COUNT

    def __call__(self, batches: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
        """Yields the outputs of each batch, in order.

        Args:
            batches: one array for each input, for up to `most` batches.

        Raises:
            OpError: an op failed for a batch; those before it were yielded.
        """
        if self._together is not None and len(batches) == BatchCopies.COUNT:
            try:
                found = self._time(self._together, itertools.chain.from_iterable(batches))
            except tf.errors.OpError:
                pass  # single calls find the batch that fails
            else:
                size = len(found) // len(batches)
                yield from (found[first : first + size] for first in range(0, len(found), size))
                return
        for arrays in batches:
            self._singles += 1
            yield self._single(*arrays)

    def _time(self, together: Callable[..., list[Any]], arrays: Iterator[Any]) -> list[Any]:
        if self._calls >= _CALLS:
            return together(*arrays)
        begin = time.perf_counter()
        found = together(*arrays)
        seconds = time.perf_counter() - begin
        self._calls += 1
        if self._calls > _FIRST_CALLS:
            self._shortest = min(self._shortest, seconds)
        if self._calls == _CALLS and self._shortest > BatchCopies.COUNT * self._single.shortest:
            self._together = None
        return found
