"""The cost of checkpoints: the pause of the step loop, the time to write one, and the time to resume.

    python benchmarks/checkpoint.py [--smoke] [MEGABYTES]

Each figure is taken in turn with what it is compared to: a copy of the same variables in memory,
`tf.train.Saver`, and a fresh start of the same training. The limit of the pause is one copy of the variables
in memory, a fifth more, and 20 ms.
"""

from __future__ import annotations

import gc
import itertools
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import _rounds
import _verdicts
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables
from towerpack_trainers import TrainConfig, Trainer

ROUNDS = _rounds.shorter(9)
PAUSE_RATIO, PAUSE_SECONDS = 1.2, 0.020


def seconds(work: Callable[[], object]) -> float:
    """Wall time of a call, with no garbage collection in it."""
    gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


class Saving(Callback):
    """Measures in a running training, where each step takes little time.

    Args:
        rounds: how often.
        saver: the saver to measure.
        place: a directory for TensorFlow's saver.
    """

    def __init__(self, rounds: int, saver: ModelSaver, place: Path) -> None:
        self._rounds, self._saver, self._place = rounds, saver, place

    def _setup_graph(self) -> None:
        self._theirs = tf.train.Saver(max_to_keep=1)

    def _trigger(self) -> None:
        variables = self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        self._arrays = [np.asarray(array) for array in self.trainer.sess.run(variables)]
        self._copies = [array.copy() for array in self._arrays]
        self.pauses: list[float] = []
        subjects = {
            "one memcpy": lambda: seconds(self._copy),
            "tf.train.Saver": lambda: seconds(self._save_theirs),
            "ModelSaver, all of it": lambda: seconds(self._save_ours),
        }
        _rounds.measure(subjects, 2)
        self.pauses.clear()
        self.figures = _rounds.measure(subjects, self._rounds)
        self.figures["ModelSaver, pause"] = self.pauses

    def _copy(self) -> None:
        for copy, array in zip(self._copies, self._arrays):
            np.copyto(copy, array)

    def _save_theirs(self) -> None:
        self._theirs.save(self.trainer.sess, str(self._place / "theirs"), write_meta_graph=False)

    def _save_ours(self) -> None:
        self.trainer.loop.global_step += 1  # so that it is another checkpoint
        # As the loop calls it after a step that triggers it.
        self._saver.trigger()
        begin = time.perf_counter()
        self._saver._after_triggers()
        self.pauses.append(time.perf_counter() - begin)
        self._saver.save_now()


class FirstStep(Callback):
    """Notes when the first step is done."""

    def _trigger_step(self) -> None:
        if not hasattr(self, "at"):
            self.at = time.perf_counter()


def shapes(megabytes: float) -> list[list[int]]:
    """Shapes of variables such as a network's: those of ResNet-50, as many times as it takes."""
    kernels, last = [[7, 7, 3, 64]], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            kernels += [[1, 1, last, 4 * width]] if block == 0 else []
            kernels += [[1, 1, last, width], [3, 3, width, width], [1, 1, width, 4 * width]]
            last = 4 * width
    network = [*kernels, *([kernel[-1]] for kernel in kernels for _ in range(4)), [2048, 1000], [1000]]
    chosen: list[list[int]] = []
    for shape in itertools.cycle(network):
        if sum(map(math.prod, chosen)) * 4e-6 >= megabytes:
            return chosen
        chosen.append(shape)
    raise AssertionError("a cycle has no end")


def build(megabytes: float) -> tf.Operation:
    """A graph with variables of a given size in megabytes, and a step that changes all of them."""
    tf.train.get_or_create_global_step()
    updates = []
    for number, shape in enumerate(shapes(megabytes)):
        variable = tf.get_variable(f"v{number}", shape, initializer=tf.random_normal_initializer())
        updates.append(variable.assign_sub(0.01 * variable))
    return tf.group(*updates)


def train(megabytes: float, callbacks: list[Callback], log_dir: Path, **changes: object) -> None:
    """Runs a training of few steps."""
    options = {"steps_per_epoch": 3, "max_epoch": 1, "monitors": [], "extra_callbacks": [], **changes}
    trainer = Trainer(TrainConfig(callbacks=callbacks, log_dir=log_dir, seed=1, **options))
    with trainer.graph.as_default():
        trainer.train_op = build(megabytes)
    trainer.train()


def measure_saving(megabytes: float, place: Path, verdicts: _verdicts.Verdicts) -> None:
    """Prints pause and total time."""
    saver = ModelSaver(keep_last=1)
    saving = Saving(ROUNDS, saver, place)
    train(megabytes, [saver, saving], place / "saving")
    figures = saving.figures
    table(figures)
    limits = [PAUSE_RATIO * value + PAUSE_SECONDS for value in figures["one memcpy"]]
    by_limit = _rounds.ratios(figures["ModelSaver, pause"], limits)
    verdicts.at_most("the pause of the step loop / its limit", by_limit, 1)
    by_saver = _rounds.ratios(figures["ModelSaver, all of it"], figures["tf.train.Saver"])
    verdicts.at_most("all of it / tf.train.Saver", by_saver, 1.5)


def table(figures: _rounds.Figures) -> None:
    """Prints seconds as milliseconds."""
    for name, values in figures.items():
        print(f"  {name:<24} {_rounds.summary([1000 * value for value in values], '.1f')} ms")


def measure_resuming(megabytes: float, place: Path, verdicts: _verdicts.Verdicts) -> None:
    """Prints the time to the first step."""
    template = place / "template"
    train(megabytes, [ModelSaver()], template)
    checkpoint = latest_checkpoint(template)
    assert checkpoint is not None

    def start(**changes: object) -> float:
        gc.collect()
        first, begin = FirstStep(), time.perf_counter()
        train(megabytes, [first], place / "start", max_epoch=2, **changes)
        return first.at - begin

    subjects = {
        "a fresh start": start,
        "loading": lambda: seconds(lambda: load_variables(checkpoint)),
        "resuming": lambda: start(resume=checkpoint),
    }
    _rounds.measure(subjects, 1)
    figures = _rounds.measure(subjects, ROUNDS)
    table(figures)
    sums = [a + b for a, b in zip(figures["a fresh start"], figures["loading"])]
    # On a busy machine, a tenth of a duration of seconds is noise.
    ratios = _rounds.ratios(figures["resuming"], sums)
    verdicts.at_most("resuming / a fresh start and loading together", ratios, 1.1)


def main() -> None:
    """Measures, prints and judges."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else float(_rounds.shorter(100, 5))
    print(_rounds.heading("tensorflow", "numpy"))
    count = len(shapes(megabytes))
    print(f"{megabytes:g} MB in {count} variables, {ROUNDS} interleaved rounds, medians (range)")
    place = Path(tempfile.mkdtemp(prefix="towerpack-checkpoint-"))
    verdicts = _verdicts.Verdicts()
    try:
        print("saving")
        measure_saving(megabytes, place, verdicts)
        print("to the first step")
        measure_resuming(megabytes, place, verdicts)
    finally:
        shutil.rmtree(place)
    verdicts.leave()


if __name__ == "__main__":
    main()
