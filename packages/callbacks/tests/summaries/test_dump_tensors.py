"""Tensors of a step in Python, in files, and as images."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import DumpTensorAsImage, DumpTensors, Monitor, ProcessTensors


class Tensors:
    """Adds tensors that depend on the step."""

    def __init__(self, line):
        with line.graph.as_default():
            step = tf.cast(tf.train.get_global_step(), tf.float32)
            tf.fill([2, 3], step / 6, name="conv0/map")


def test_process_tensors(line):
    seen = []
    function = lambda cost, twice: seen.append((twice, cost > 0))  # noqa: E731
    line.run([ProcessTensors(["cost", "twice"], function, every="2 steps")])
    assert seen == [(2, True), (6, True), (10, True)]


def test_dump_tensors(line):
    Tensors(line)
    line.run([DumpTensors(["conv0/map", "cost:0"], every="3 steps")])
    files = sorted(path.name for path in line.log_dir.glob("DumpTensor-*"))
    assert files == ["DumpTensor-3.npz", "DumpTensor-6.npz"]
    with np.load(line.log_dir / "DumpTensor-6.npz") as arrays:
        assert set(arrays) == {"conv0/map", "cost:0"}
        np.testing.assert_allclose(arrays["conv0/map"], np.full([2, 3], 5 / 6), rtol=1e-6)


def test_any_name_and_type_of_numbers_is_dumped(line):
    with line.graph.as_default():
        tf.constant([1.5, 2.0], tf.bfloat16, name="file")
        tf.constant([b"text"], name="words")
    line.run([DumpTensors(["file", "cost"], every="6 steps")])
    with np.load(line.log_dir / "DumpTensor-6.npz") as arrays:
        assert arrays["file"].tolist() == [1.5, 2.0]
    with pytest.raises(
        TypeError, match=r"writes tensors of numbers, received words:0 of text.*ProcessTensors"
    ):
        line.run([DumpTensors(["words"])])


def test_dumping_every_step_starts_with_the_first(line):
    line.run([DumpTensors(["cost"])], steps_per_epoch=2, max_epoch=1)
    assert len(list(line.log_dir.glob("DumpTensor-[12].npz"))) == 2


class Images(Monitor):
    """Keeps images as they are put."""

    def __init__(self):
        self.images = []

    def process_summary(self, summary, global_step):
        self.images += [(value.tag, value.image, global_step) for value in summary.value]


def test_dump_tensor_as_image(line):
    Tensors(line)
    images = Images()
    dumps = [
        DumpTensorAsImage("conv0/map"),
        DumpTensorAsImage("conv0/map:0", "columns", lambda value: np.stack([value.T] * 3, -1)[None], scale=1),
    ]
    line.run(dumps, monitors=[images], max_epoch=1)
    (tag, image, step), (other, columns, _) = images.images
    assert (tag, image.height, image.width, image.colorspace, step) == ("conv0/map", 2, 3, 1, 3)
    assert other.startswith("columns")
    assert (columns.height, columns.width, columns.colorspace) == (3, 2, 3)


def test_files_need_a_directory(line):
    line.log_dir = None
    with pytest.raises(ValueError, match="DumpTensors has nowhere to write: give log_dir="):
        line.run([DumpTensors(["cost"])])


@pytest.mark.parametrize("make", [lambda: DumpTensors("cost"), lambda: ProcessTensors("cost", print)])
def test_names_come_in_a_list(make):
    with pytest.raises(TypeError, match=r"Write \['cost'\]"):
        make()


def test_the_function_can_be_called():
    with pytest.raises(TypeError, match="takes a function of 1 values, received 3"):
        ProcessTensors(["cost"], 3)
