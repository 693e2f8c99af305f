"""Reports on a training's data: the bottleneck, steps that do not finish, and the origins of datapoints."""

from __future__ import annotations

import enum
import logging
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every, StepFetch
from towerpack_inputsource import InputSource, InputStatus

from .._errors import ConfigError

__all__ = [
    "Bottleneck",
    "BottleneckReport",
    "InputReport",
    "StallWatch",
    "describe_stall",
    "explain_step",
    "judge_epoch",
    "sampling_period",
]

_log = logging.getLogger("towerpack_trainers")


# Fractions of a thread's time at work on the next datapoint; between them there is no clear bottleneck.
_DATA_IS_SLOWER, _MODEL_IS_SLOWER = 0.9, 0.6
# If steps wait for this fraction of their time, the data is the bottleneck, even if a queue that was filled
# in a pause of the training (a checkpoint, an evaluation) lowers the thread's fraction.
_STEPS_STARVE = 0.5
# With so few samples, a single delayed step would decide.
_ENOUGH_SAMPLES = 3
# Slow data leaves a queue empty. A queue with few places is no evidence: one datapoint half fills it.
_IS_FILLED, _FEWEST_PLACES = 0.5, 4
# Reading the clock twice in each step costs time, and samples are sufficient. They are few, since for
# TensorFlow a step with another fetch is another graph, with memory in no cache, and takes longer.
_SAMPLES_PER_EPOCH = 3
_SHORTEST_PERIOD, _LONGEST_PERIOD = 20, 2000  # steps from one sample to the next


class Bottleneck(enum.Enum):
    """The bottleneck of an epoch: data or model."""

    DATA = "the data is the bottleneck"
    MODEL = "the model is the bottleneck"
    NEITHER = "data and model are about even"


@final
@attrs.frozen
class BottleneckReport:
    """The bottleneck of an epoch, and the fractions of time that show it; as a string, one line.

    Attributes:
        bottleneck: the bottleneck.
        flow_share: the fraction of its time that the input was at work on the next datapoint.
        waited: the fraction of the steps' time spent waiting for data; None if it was not measured.
    """

    bottleneck: Bottleneck
    flow_share: float
    waited: float | None = None

    def __str__(self) -> str:
        steps = "" if self.waited is None else f"steps waited for data {self.waited:.0%} of their time, and "
        share = f"{self.flow_share:.0%} of its time the input was at work on the next datapoint"
        return f"{self.bottleneck.value}: {steps}{share}"


def judge_epoch(
    spent: InputStatus,
    waited: float | None = None,
    filled: float | None = None,
    samples: int = _ENOUGH_SAMPLES,
) -> BottleneckReport | None:
    """Determines the bottleneck of an epoch; None for an input without threads.

    A thread that never waits for room in its queue is always behind the model; a thread that often does is
    ahead of it.

    Args:
        spent: the input's status since the epoch began (`InputStatus.since`).
        waited: the fraction of the steps' time spent waiting for data; None if it was not measured.
        filled: the fill level of the queue, from 0 to 1; None if it is no evidence. From 0.5, the data is
            not the bottleneck, even if single steps waited.
        samples: the number of steps in which both were measured; a few samples decide nothing.
    """
    busy = [thread for thread in spent.threads if thread.seconds_in_flow + thread.seconds_in_put > 0]
    if not busy:
        return None
    share = max(thread.flow_share for thread in busy)
    starving = (waited or 0.0) > _STEPS_STARVE and samples >= _ENOUGH_SAMPLES
    bottleneck = Bottleneck.NEITHER
    if (share > _DATA_IS_SLOWER or starving) and (filled or 0.0) < _IS_FILLED:
        bottleneck = Bottleneck.DATA
    elif share < _MODEL_IS_SLOWER:
        bottleneck = Bottleneck.MODEL
    return BottleneckReport(bottleneck, share, waited)


@final
class InputReport(Callback):
    """Reports the bottleneck, data or model, on the console: first, and when it changes.

    A change is reported after two epochs in a row: if data and model are about equally fast, epochs differ by
    chance.

    The waiting time of a step is measured in the graph, by two clocks before and after the first tower's
    input, in about three steps of an epoch: more in an epoch of over 6,000 steps, fewer in one of under 60.
    The fill level of the queue is recorded at the same time; the medians count. A sample may be the single
    step after a call of several steps, when the queue had time to fill: the steps within the call waited as
    long or longer.

    Args:
        source: the training's input.
        tensors: the input tensors of one tower; empty if they are not known.
        steps_per_run: samples are taken at multiples of it.
    """

    def __init__(
        self, source: InputSource, tensors: Sequence[tf.Tensor] = (), steps_per_run: int = 1
    ) -> None:
        self._source = source
        # Without hooks there is no prefetching, so a step does not wait.
        self._tensors = tensors if source.feed_free and source.hooks() else ()
        self._steps_per_run = steps_per_run
        self._waits: list[float] = []
        self._fills: list[float] = []

    def _setup_graph(self) -> None:
        self._told: Bottleneck | None = None
        self._shown: Bottleneck | None = None  # in the previous epoch
        if not self._tensors:
            return
        with tf.device("/cpu:0"):
            begin = tf.timestamp("step_begins")
            with tf.control_dependencies(list(self._tensors)):
                self._came = tf.timestamp("input_came")
                self._wait = tf.subtract(self._came, begin, name="waited")

    def step_fetches(self) -> Sequence[StepFetch]:
        if not self._tensors:
            return []
        every = sampling_period(self.trainer.loop.steps_per_epoch, self._steps_per_run)
        return [StepFetch([self._wait, self._came], self._note, Every(steps=every))]

    def _note(self, measured: Sequence[float]) -> None:
        # The ops of a step begin in any order, so an available input may arrive before the first clock.
        waited, came = max(0.0, measured[0]), measured[1]
        self._waits.append(waited)
        self._note_fill()
        if self.trainer.loop.record is not None:
            came += time.perf_counter() - time.time()  # TensorFlow's clock is the wall clock
            self.trainer.loop.record("wait for data", "wait", came - waited, came)

    def _note_fill(self) -> None:
        # Steps take from the last queue; it is small, and the earlier ones fill it.
        fills = [
            fill / places
            for _, fill, places in self._source.status().buffers
            if fill is not None and places is not None and places >= _FEWEST_PLACES
        ]
        if fills:
            self._fills.append(fills[-1])

    def _before_epoch(self) -> None:
        self._waits.clear()
        self._fills.clear()
        self._first_step = self.global_step
        self._began = time.monotonic()
        self._earlier = self._source.status()

    def _after_epoch(self) -> None:
        if self.global_step == self._first_step:
            return  # an epoch without steps is no evidence, for example after other batches
        self._note_fill()
        filled = statistics.median(self._fills) if self._fills else None
        spent, waited = self._source.status().since(self._earlier), self._waited()
        if waited is not None:
            self.trainer.loop.spend("wait", waited * (time.monotonic() - self._began))
        report = judge_epoch(spent, waited, filled, len(self._waits))
        if report is not None and self._is_news(report.bottleneck):
            self.trainer.monitors.put_message(f"epoch {self.epoch_num}: {report}")

    def _is_news(self, bottleneck: Bottleneck) -> bool:
        news = bottleneck is not self._told and (self._told is None or bottleneck is self._shown)
        self._shown = bottleneck
        if news:
            self._told = bottleneck
        return news

    def _waited(self) -> float | None:
        """Returns the median fraction of a step's time spent waiting; None without a sample."""
        steps = self.global_step - self._first_step
        if not self._waits or not steps:
            return None
        per_step = (time.monotonic() - self._began) / steps
        return min(1.0, statistics.median(self._waits) / per_step)


def sampling_period(steps_per_epoch: int, steps_per_run: int) -> int:
    """Returns the number of steps between samples of the waiting time."""
    steps = min(max(steps_per_epoch // _SAMPLES_PER_EPOCH, _SHORTEST_PERIOD), _LONGEST_PERIOD)
    return -(-steps // steps_per_run) * steps_per_run


@final
class StallWatch(Callback):
    """Warns when no step has finished for some time: once, and again each time the wait has doubled.

    It watches from an epoch's first step to its last, and during evaluations; other callbacks after an epoch
    have no limit. It warns about an evaluation when no batch has finished for some time, and, if the length
    of its input is unknown, when the whole evaluation takes longer. It does not watch the workers of a
    parallel flow: the flow itself warns about those, and reports their activity.

    Args:
        source: the training's input; None without one.
        seconds: the maximum time of a step, in seconds.
    """

    chief_only = False

    def __init__(self, source: InputSource | None, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._running = False
        self._evaluation_limit = seconds
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def _before_train(self) -> None:
        self._end.clear()
        self._thread = threading.Thread(target=self._watch, name="towerpack-stall-watch", daemon=True)
        self._thread.start()

    def _before_epoch(self) -> None:
        self._running = True

    def _after_epoch(self) -> None:
        self._running = False

    def _after_train(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        seen, since, limit = -1, time.monotonic(), self._seconds
        while not self._end.wait(self._seconds / 4):
            step, now = self.global_step, time.monotonic()
            self._watch_evaluations(now)
            if step != seen or not self._running:
                if limit > self._seconds and step != seen:
                    _log.warning("Steps finish again: step %d did after %.0f s.", step, now - since)
                seen, since, limit = step, now, self._seconds
            elif now - since >= limit:
                limit = 2 * (now - since)
                _log.warning("%s", self._describe(now - since))

    def _watch_evaluations(self, now: float) -> None:
        towers = getattr(self.trainer, "evaluation_towers", ())
        rounds = [progress for tower in towers if (progress := tower.progress) is not None]
        if not rounds:
            self._evaluation_limit = self._seconds
        for progress in rounds:
            unknown = progress.source.size() is None
            if now - (progress.began if unknown else progress.newest) >= self._evaluation_limit:
                self._evaluation_limit *= 2
                _log.warning(
                    "The evaluation in %r has run for %.0f s: %d batches, the latest %.0f s ago.%s Input: %s",
                    progress.name,
                    now - progress.began,
                    progress.batches,
                    now - progress.newest,
                    " The length of its input is unknown; if it never ends, use FixedSizeData(flow, size)."
                    if unknown
                    else "",
                    progress.source.status(),
                )

    def _describe(self, seconds: float) -> str:
        loop = self.trainer.loop
        where = f"epoch {loop.epoch_num}, local step {loop.local_step}, global step {loop.global_step}"
        status = None if self._source is None else self._source.status()
        return (
            f"No step has finished for {seconds:.0f} s ({where}). {describe_stall(status)}\n"
            f"What Python's threads are doing:\n{_stacks(skip=threading.get_ident())}"
        )


def describe_stall(status: InputStatus | None) -> str:
    """Describes whether the step waits for data, and the reason of the wait, from the status of the input.

    Args:
        status: the status of the input; None without one.
    """
    if status is None:
        return "There is no input to wait for, so the step itself, or a callback, is busy or stuck."
    if any(buffer.fill == 0 for buffer in status.buffers):
        waiting = [thread for thread in status.threads if thread.doing == "flow"]
        reason = (
            f"The step waits for data, and {waiting[0].name} waits for the flow's next datapoint"
            if waiting
            else "The step waits for data, and no datapoint is being produced"
        )
    elif status.buffers and all(buffer.fill for buffer in status.buffers):
        reason = "Data is available, so the step itself, or a callback, is busy or stuck"
    else:
        reason = "It is not known whether the step waits for data"
    return f"{reason}. {status}"


def _stacks(skip: int) -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        if ident != skip:
            stack = "".join(traceback.format_stack(frame))
            parts.append(f"thread {names.get(ident, ident)!r}:\n{stack}")
    return "\n".join(parts)


def explain_step(flow: Any, global_step: int, datapoints_per_step: int) -> list[Any]:
    """Traces the datapoints of one step of a training that began with epoch 0 of its flow.

    An input continues from pass to pass, regardless of the training's epochs, so the number of a datapoint
    is the number of the step times the datapoints per step.

    Args:
        flow: the flow of the training, with the methods `trace(index, epoch)` and `__len__`.
        global_step: the step, counted from 1.
        datapoints_per_step: the number of datapoints that all towers take in a step.

    Returns:
        A trace for each datapoint, in the order of the flow.

    Raises:
        ConfigError: there is no such step, or the flow has no traces.
        TypeError: the flow is a stream, or its length is unknown.
    """
    if isinstance(global_step, bool) or not isinstance(global_step, int) or global_step < 1:
        raise ConfigError(f"A step is an integer of at least 1; received {global_step!r}.")
    if not hasattr(flow, "trace"):
        remedy = " Write DataFromList(list)." if isinstance(flow, (list, tuple)) else ""
        raise ConfigError(
            "explain_step needs TrainConfig(dataflow=...) with a flow that has trace(index, epoch), such as "
            f"those of towerpack_dataflow; received {type(flow).__name__}.{remedy}"
        )
    length = len(flow)
    if not length:
        raise ConfigError(f"{flow!r} has no datapoints, so no step can be traced.")
    first = (global_step - 1) * datapoints_per_step
    places = (divmod(number, length) for number in range(first, first + datapoints_per_step))
    return [flow.trace(index, epoch) for epoch, index in places]
