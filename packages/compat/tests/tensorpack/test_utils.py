"""Helpers of `tensorpack.utils` without TensorFlow."""

from __future__ import annotations

import gzip
import logging
import pickle
import queue
import struct
import subprocess
import sys
import unittest
from itertools import islice
from typing import Any

import numpy as np
import pytest

from towerpack_compat._install import add_to_augmentors, add_to_flows
from towerpack_compat.tensorpack.datasets import (
    BatchData,
    BatchDataByShape,
    DataFromQueue,
    LMDBSerializer,
    Mnist,
    NumpySerializer,
    RNGDataFlow,
    TFRecordSerializer,
)
from towerpack_compat.tensorpack.utils import logger, viz
from towerpack_compat.tensorpack.utils.stats import BinaryStatistics, OnlineMoments, RatioCounter
from towerpack_dataflow import DataFromList, LMDBData, MapData
from towerpack_dataflow.augment import CropTransform, ImageAugmentor, RandomCrop


def test_patches_are_stacked_with_the_border_and_the_channels_of_tensorpack() -> None:
    grey = viz.stack_patches(np.zeros((3, 40, 60)), nr_row=2, nr_col=2)
    assert grey.shape == (82, 122, 1) and grey[0, 0] == 0 and grey[41, 0] == 255 and grey[60, 100] == 255
    blue = viz.stack_patches(
        [np.full((4, 4, 3), 7), np.full((2, 6), 9)], 1, 2, border=1, pad=True, bgcolor=(255, 0, 0)
    )
    assert blue.shape == (4, 13, 3)
    assert blue[0, 6].tolist() == [255, 0, 0] and blue[1, 8].tolist() == [9, 9, 9]
    with pytest.raises(AssertionError):
        viz.stack_patches(np.zeros((5, 4, 4)), 2, 2)


def test_pages_of_patches_follow_the_largest_size() -> None:
    pages = list(viz.gen_stack_patches(np.zeros((5, 20, 20, 3)), max_width=63, max_height=21))
    assert [page.shape for page in pages] == [(20, 62, 3)] * 2


def test_boxes_are_drawn_in_blue_green_red_on_a_copy() -> None:
    image = np.zeros((20, 20, 3), np.uint8)
    drawn = viz.draw_boxes(image, [[2, 3, 10, 12]], color=(255, 0, 0))
    assert drawn[3, 5].tolist() == [255, 0, 0] and not image.any()
    assert viz.draw_boxes(image, [[2, 3, 10, 12]], ["a"]).any()


def test_images_of_a_flow_are_written_up_to_a_number(tmp_path) -> None:
    flow = DataFromQueue(_Endless())
    viz.dump_dataflow_images(flow, batched=False, number=3, output_dir=str(tmp_path), scale=255, resize=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["001.jpg", "002.jpg"]


class _Endless:
    def get(self) -> list[np.ndarray]:
        return [np.ones((4, 4, 3), np.float32)]


def test_a_flow_of_a_queue_gives_its_datapoints() -> None:
    source: queue.Queue[list[int]] = queue.Queue()
    for number in range(3):
        source.put([number])
    flow = DataFromQueue(source)
    flow.reset_state()
    assert list(islice(flow, 3)) == [[0], [1], [2]]


def test_batches_have_the_dtypes_of_their_first_datapoints() -> None:
    points = [
        [np.uint8([1, 2]), True, 0.5, "a"],
        [np.float64([3.7, 4.2]), 2, np.float64(1.5), "bc"],
        [np.float64([5.5, 6.5]), 3, 2, "d"],
    ]
    first, second = BatchData(DataFromList(points, shuffle=False), 2, remainder=True)
    assert [each.dtype for each in first[:3]] == ["uint8", "int32", "float32"]
    assert [each.tolist() for each in first] == [[[1, 2], [3, 4]], [1, 2], [0.5, 1.5], ["a", "bc"]]
    assert [each.dtype for each in second[:3]] == ["float64", "int32", "int32"]
    named = BatchData.aggregate_batch([{"x": 1, "y": np.int8(2)}, {"x": 2.9, "y": np.int64(3)}])
    assert {key: (str(value.dtype), value.tolist()) for key, value in named.items()} == {
        "x": ("int32", [1, 2]),
        "y": ("int8", [2, 3]),
    }
    listed = BatchData([[1, True], [0.5, None]], 2, use_list=True)
    assert list(listed) == [[[1, 0.5], [True, None]]]


def test_incomplete_batches_of_a_shape_wait_for_the_next_pass() -> None:
    flow = BatchDataByShape([[np.zeros(size), number] for number, size in enumerate([2, 3, 3, 2, 2])], 2, 0)
    flow.reset_state()
    assert len(flow) == 2
    assert [batch[1].tolist() for batch in flow] == [[1, 2], [0, 3]]
    assert [batch[1].tolist() for batch in flow] == [[4, 0], [1, 2], [3, 4]]
    rare = BatchDataByShape([[np.zeros(size), size] for size in range(4)], 3, 0)
    assert [batch[1].tolist() for batch in rare] == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]
    assert not list(BatchDataByShape([], 3, 0))


def test_counters_take_the_sums_of_arrays_of_floats() -> None:
    ratio = RatioCounter()
    assert ratio.ratio == 0
    ratio.feed(np.float32(1.5), 2)
    assert (ratio.ratio, ratio.count, ratio.total) == (0.75, 1.5, 2)
    binary = BinaryStatistics()
    binary.feed(np.array([1, 1, 0, 1]), np.array([1, 0, 1, 1]))
    assert binary.precision == binary.recall == pytest.approx(2 / 3)
    assert binary.false_positive == pytest.approx(1 / 3)
    moments = OnlineMoments()
    for value in (1.0, 3.0, 8.0):
        moments.feed(np.full(2, value))
    assert moments.mean.tolist() == [4, 4] and moments.variance.tolist() == [13, 13]


def test_the_images_of_mnist_are_there_as_an_array(tmp_path) -> None:
    for part, count in (("train", 3), ("t10k", 2)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            header = struct.pack(f">{1 + len(shape)}I", 2048 + len(shape), *shape)
            data = np.full(shape, 255) if len(shape) == 3 else np.arange(count)
            data = data.astype(np.uint8).tobytes()
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + data))
    digits = Mnist("train", dir=tmp_path)
    assert digits.images.shape == (3, 28, 28, 1) and digits.images.max() == 1
    assert digits.labels.tolist() == [0, 1, 2]  # in the order of the images, though the flow is shuffled
    for kind in (Mnist, _Pairs):
        flow = kind("train", dir=tmp_path)
        flow.reset_state()
        assert 0 <= next(iter(flow))[1] < 3 and flow.rng.randint(5, 6) == 5


class _Pairs(Mnist):
    def __iter__(self):
        yield [None, self.rng.choice(self.labels)]


class _Draws(RNGDataFlow):
    def __iter__(self):
        yield [self.rng.randint(0, 1000, (3,))]


def test_flows_draw_by_the_methods_of_tensorpack_s_generator() -> None:
    flow, same = _Draws(), _Draws()
    flow.seed(5)
    same.seed(5)
    flow.reset_state()
    assert flow.rng.randint(0, 5) < 5
    [[first]], [[second]] = list(flow), list(same)
    assert first.tolist() == second.tolist()
    assert next(iter(flow))[0].tolist() != first.tolist()


def test_augmentors_return_a_transform_as_the_parameters_of_other_images() -> None:
    add_to_augmentors()
    crop: Any = RandomCrop(2)
    image = np.arange(36.0).reshape(6, 6)
    cropped, parameters = crop.augment_return_params(image)
    assert np.array_equal(crop.augment_with_params(image, parameters), cropped)
    moved = crop.augment_coords(np.array([[3.0, 3.0]]), parameters)
    assert moved[0].tolist() == [3 - parameters.w0, 3 - parameters.h0]


def test_warnings_of_towerpack_are_in_the_log_of_the_program() -> None:
    with unittest.TestCase().assertLogs(logger._logger, "INFO") as seen:
        logging.getLogger("towerpack_layers").info("shapes")
    assert seen.output == ["INFO:towerpack_layers:shapes"]


@pytest.mark.parametrize(
    "kind, name", [(LMDBSerializer, "a.lmdb"), (TFRecordSerializer, "a.tfrecord"), (NumpySerializer, "a.npz")]
)
def test_files_of_flows_are_pickles_as_tensorpack_writes_and_reads_them(kind, name: str, tmp_path) -> None:
    add_to_flows()
    path = str(tmp_path / name)
    kind.save(DataFromList([[1, np.ones(2)], [2, np.zeros(2)]], shuffle=False), path)
    assert [next(iter(row)) for row in kind.load(path)] in ([1, 2], [2, 1])
    if kind is LMDBSerializer:
        stored = dict(LMDBData(path, shuffle=False))
        assert pickle.loads(stored[b"00000001"])[0] == 2
    if kind is NumpySerializer:
        with np.load(path, allow_pickle=True) as arrays:
            assert arrays["buffer"].dtype == object and len(arrays["buffer"]) == 2


def test_an_interrupted_writer_leaves_no_lmdb_file(tmp_path) -> None:
    add_to_flows()

    def fails(_datapoint: Any) -> Any:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        LMDBSerializer.save(MapData(DataFromList([[1]]), fails), str(tmp_path / "a.lmdb"))
    assert not [*tmp_path.iterdir()]
    LMDBSerializer.save(DataFromList([[1]]), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["data.mdb"]


def test_a_program_of_simulators_ends(tmp_path) -> None:
    pytest.importorskip("zmq")
    (tmp_path / "program.py").write_text(_SIMULATORS)
    command = [sys.executable, "-m", "towerpack_compat", "run", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-4:] == ["received", "7", "left", "ended"]


# A3C's master waits for simulators at a socket; its exit handler closes the socket, which is not safe.
_SIMULATORS = """
import atexit, multiprocessing, threading
from tensorpack.utils.concurrency import ensure_proc_terminate, start_proc_mask_signal
import zmq

class Simulator(multiprocessing.Process):
    def run(self):
        socket = zmq.Context().socket(zmq.PUSH)
        socket.connect(NAME)
        socket.send(b"7")
        threading.Event().wait()

class Master(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.received, self.context = threading.Event(), zmq.Context()
        self.socket = self.context.socket(zmq.PULL)
        self.socket.bind(NAME)
        atexit.register(self.end)
    def run(self):
        try:
            while True:
                print("received", self.socket.recv().decode(), flush=True)
                self.received.set()
        except zmq.ContextTerminated:
            print("left", flush=True)
    def end(self):
        self.socket.close()
        self.context.term()
        print("ended", flush=True)

NAME = f"ipc://@simulators-{multiprocessing.current_process().pid}"
simulator = Simulator()
ensure_proc_terminate(simulator)
start_proc_mask_signal(simulator)
master = Master()
start_proc_mask_signal(master)
assert master.received.wait(30)
"""


def test_a_fixed_seed_repeats_the_order_of_flows() -> None:
    code = (
        "import towerpack_compat; towerpack_compat.install(report=False)\n"
        "from tensorpack.dataflow import DataFromList\n"
        "from tensorpack.utils.utils import fix_rng_seed\n"
        "fix_rng_seed(42)\n"
        "orders = [list(DataFromList(list(range(20)))) for _ in range(2)]\n"
        "fix_rng_seed(43)\n"
        "orders.append(list(DataFromList(list(range(20)))))\n"
        "assert orders[0] == orders[1] != orders[2]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=110)


def test_random_ranges_of_augmentors_keep_float32() -> None:
    add_to_augmentors()
    uniform: Any = ImageAugmentor()
    assert uniform._rand_range(0, 1, (3,)).dtype == np.float32 and uniform._rand_range(2) < 2


def test_crops_have_the_corner_under_its_old_names() -> None:
    add_to_augmentors()
    crop: Any = CropTransform(2, 3, 4, 5)
    assert (crop.y0, crop.x0, crop.h, crop.w) == (2, 3, 4, 5)
