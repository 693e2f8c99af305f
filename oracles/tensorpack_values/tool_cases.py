"""`tensorpack.utils` without TensorFlow: counters, arguments, pictures, and the summary of time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from cases import case, drawn, image, raised
from tensorpack.utils import logger
from tensorpack.utils.argtools import (
    call_only_once,
    get_data_format,
    map_arg,
    memoized,
    memoized_ignoreargs,
    memoized_method,
    shape2d,
    shape4d,
)
from tensorpack.utils.concurrency import LoopThread, StoppableThread
from tensorpack.utils.fs import get_dataset_path, mkdir_p, normpath, recursive_walk
from tensorpack.utils.palette import PALETTE_RGB
from tensorpack.utils.stats import Accuracy, BinaryStatistics, OnlineMoments, RatioCounter, StatCounter
from tensorpack.utils.timer import Timer
from tensorpack.utils.utils import (
    change_env,
    execute_only_once,
    fix_rng_seed,
    get_rng,
    humanize_time_delta,
)
from tensorpack.utils.viz import (
    draw_boxes,
    draw_text,
    gen_stack_patches,
    intensity_to_rgb,
    stack_patches,
)


@case
def counters() -> Any:
    counter, ratio, accuracy = StatCounter(), RatioCounter(), Accuracy()
    for n in (3, 1.5, np.float32(7), -2):
        counter.feed(n)
        ratio.feed(abs(n), 10)
        accuracy.feed(n > 1)
    found = [counter.count, counter.average, counter.sum, counter.max, counter.min, counter.samples()]
    found += [ratio.ratio, ratio.total, ratio.count, accuracy.accuracy]
    counter.reset()
    ratio.reset()
    return [*found, counter.count, ratio.ratio, raised(lambda: counter.average)]


@case
def moments() -> Any:
    numbers, arrays = OnlineMoments(), OnlineMoments()
    for n in range(5):
        numbers.feed(n * n)
        arrays.feed(drawn(f"moment{n}", (2, 3)))
    return [(each.mean, each.variance, each.std) for each in (numbers, arrays)]


@case
def binary() -> Any:
    statistics = BinaryStatistics()
    empty = statistics.precision, statistics.recall, statistics.false_positive, statistics.false_negative
    for n in range(3):
        predicted, label = drawn(f"p{n}", (20,)) > 0, drawn(f"l{n}", (20,)) > 0.1
        statistics.feed(predicted.astype(int), label.astype(int))
    counts = statistics.nr_pos, statistics.nr_neg, statistics.corr_pos, statistics.corr_neg
    rates = statistics.precision, statistics.recall, statistics.false_positive, statistics.false_negative
    return [empty, counts, rates, raised(statistics.feed, np.ones(2), np.ones(3))]


@case
def arguments() -> Any:
    calls = []

    @memoized
    def squared(x: Any) -> Any:
        calls.append(x)
        return x * x

    @memoized_ignoreargs
    def first(x: Any) -> Any:
        return x

    @map_arg(x=lambda x: x + 1)
    def mapped(x: Any, y: Any) -> Any:
        return x, y

    class Own:
        def __init__(self) -> None:
            self.count = 0

        @memoized_method
        def method(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

        @call_only_once
        def once(self) -> Any:
            return 5

    own = Own()
    return [
        [squared(n) for n in (2, 2, 3)],
        calls,
        [first(1), first(2)],
        [mapped(1, 2), mapped(x=1, y=2), mapped(1, y=2)],
        [own.method(5), own.method(5), own.method(6), own.once(), raised(own.once)],
        [shape2d(3), shape2d((3, 4)), shape2d([3, 4]), raised(shape2d, "a")],
        [shape4d(3), shape4d((3, 4)), shape4d(3, "NCHW"), shape4d(3, "channels_first")],
        [get_data_format(each) for each in ("NHWC", "NCHW", "channels_last", "channels_first")],
        [get_data_format(each, False) for each in ("NHWC", "NCHW", "channels_last", "channels_first")],
    ]


@case
def times() -> Any:
    timer = Timer()
    timer.pause()
    paused = timer.is_paused(), timer.seconds() < 1
    return [
        [humanize_time_delta(n) for n in (0, 0.5, 1, 59, 60, 61.5, 3600, 7384, 86400, 200000, 90061.2)],
        paused,
    ]


@case
def places() -> Any:
    os.environ["CHANGED"] = "a"
    with change_env("CHANGED", "b"):
        inside = os.environ["CHANGED"]
    with change_env("TENSORPACK_DATASET", "/tmp"):
        found = get_dataset_path("a", "b")
    folder = os.path.join(os.environ["VALUES_FOLDER"], "walk")
    mkdir_p(os.path.join(folder, "x"))
    open(os.path.join(folder, "x", "file"), "w").close()
    walked = [os.path.relpath(each, folder) for each in recursive_walk(folder)]
    return [inside, os.environ["CHANGED"], found, walked, normpath("a//b/../c"), normpath("gs://a/b")]


@case
def random_numbers() -> Any:
    fix_rng_seed(42)
    once = [execute_only_once() for _ in range(3)]
    return [get_rng().rand(3), get_rng(object()).randint(100, size=4), once]


@case
def pictures() -> Any:
    patches = [image()[:7, :9], image()[3:10, 2:11], image()[5:12, 4:13]]
    grey = [each[..., 0] for each in patches]
    odd = [image()[:7, :9], image()[:5, :4]]
    boxes = np.array([[2, 3, 12, 10], [5, 5, 20, 15]])
    return [
        stack_patches(patches, 2, 2),
        stack_patches(grey, 2, 2),
        stack_patches(np.stack(patches), 1, 3, border=2),
        stack_patches(odd, 1, 2, pad=True, bgcolor=100),
        [page.copy() for page in gen_stack_patches(patches * 2, 2, 2)],
        draw_boxes(image(), boxes),
        draw_boxes(image(), boxes, ["a", "b"]),
        draw_boxes(image(), boxes, color=(10, 200, 30)),
        draw_text(image(height=40, width=60), (4, 5), "text", (250, 1, 2)),
        PALETTE_RGB,
    ]


@case
def intensities() -> Any:
    return [
        intensity_to_rgb(drawn("heat", (6, 7), 0, 1)),
        intensity_to_rgb(drawn("heat", (6, 7)), "jet", True),
    ]


@case
def threads() -> Any:
    class Own(StoppableThread):
        def run(self) -> None:
            while not self.stopped():
                pass

    thread, ticks = Own(), []
    loop = LoopThread(lambda: ticks.append(1) or loop.stop(), pausable=False)
    thread.start()
    thread.stop()
    thread.join(5)
    loop.start()
    loop.join(5)
    return [thread.is_alive(), loop.is_alive(), len(ticks)]


@case
def log_files() -> Any:
    folder = os.path.join(os.environ["VALUES_FOLDER"], "log")
    logger.set_logger_dir(folder, action="d")
    logger.info("a line")
    named = logger.get_logger_dir() == folder
    with open(os.path.join(folder, "log.log")) as file:
        text = file.read()
    refused = raised(logger.set_logger_dir, folder, "x")
    # Tensorpack deletes this variable before it refuses, and cannot set a folder without it.
    vars(logger).setdefault("_FILE_HANDLER", None)
    return [named, sorted(os.listdir(folder)), "a line" in text, refused]
