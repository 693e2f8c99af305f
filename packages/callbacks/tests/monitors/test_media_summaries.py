"""Images, histograms and hyper-parameters as summaries, without a graph."""

import time

import numpy as np
import pytest
import tensorflow as tf2

from towerpack_callbacks import LoopState, Monitor, Monitors, TFEventWriter


class Listen(Monitor):
    """Keeps the summaries that are put, with their steps."""

    def __init__(self):
        self.received = []

    def process_summary(self, summary, global_step):
        self.received.append((global_step, list(summary.value)))


def put(method, *arguments):
    """The values of the summary that a method of Monitors makes."""
    listen = Listen()
    getattr(Monitors([listen], LoopState(steps_per_epoch=1, global_step=7)), method)(*arguments)
    [(step, values)] = listen.received
    assert step == 7
    return values


def put_images(name, images):
    """The images of the summary, as they were encoded, by tag."""
    return {value.tag: value.image.encoded_image_string for value in put("put_image", name, images)}


def decode(encoded):
    return tf2.io.decode_png(encoded).numpy()


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_an_image_comes_back_as_it_was(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    [(tag, encoded)] = put_images("a", image).items()
    assert tag == "a"
    np.testing.assert_array_equal(decode(encoded), image.reshape(5, 7, -1))


def test_several_images_are_numbered_and_numbers_are_clipped():
    images = np.zeros((2, 1, 4, 1))
    images[1, 0, :, 0] = [-5, 99.6, 300, np.nan]
    found = put_images("a", images)
    assert sorted(found) == ["a/0", "a/1"]
    np.testing.assert_array_equal(decode(found["a/1"])[0, :, 0], [0, 100, 255, 0])


@pytest.mark.parametrize("shape", [(5,), (5, 7, 5), (0, 7), (1, 2, 3, 4, 5)])
def test_arrays_that_are_not_images(shape):
    with pytest.raises(ValueError, match=r"put_image\('a'\) takes \[height, width\].*received shape"):
        put_images("a", np.zeros(shape))
    with pytest.raises(TypeError, match=r"put_image\('a'\) takes an array of numbers in 0…255, received <U"):
        put_images("a", np.full(shape, "x"))


def test_a_histogram_counts_finite_values():
    values = np.concatenate([np.arange(100), [np.nan, np.inf]])
    [value] = put("put_histogram", "a", values)
    histogram = value.histo
    assert value.tag == "a" and sum(histogram.bucket) == 100
    assert (histogram.num, histogram.sum, histogram.sum_squares) == (100, 4950, 328350)


def test_arrays_that_are_not_histograms():
    with pytest.raises(
        ValueError, match=r"put_histogram\('a'\) needs at least one finite number; received 2 non-finite"
    ):
        put("put_histogram", "a", [np.nan, np.inf])
    with pytest.raises(TypeError, match=r"put_histogram\('a'\) takes an array of numbers, received object"):
        put("put_histogram", "a", [None])


def written_hparams(log_dir):
    """The message for the HParams tab in the one event file of a directory."""
    [path] = log_dir.glob("events.*")
    summaries = [event.summary for event in tf2.compat.v1.train.summary_iterator(str(path))]
    [value] = [value for summary in summaries for value in summary.value]
    assert value.metadata.plugin_data.plugin_name == "hparams"
    return value.metadata.plugin_data.content


def test_hyper_parameters_are_in_the_event_file(line):
    line.run([], monitors=[TFEventWriter(hparams={"rate": 0.5, "täte": "x" * 200, "on": False})])
    content = written_hparams(line.log_dir)
    assert "täte".encode() in content and b"x" * 200 in content
    with pytest.raises(TypeError, match=r"TFEventWriter\(hparams=\.\.\.\): 'a' is None"):
        TFEventWriter(hparams={"a": None})


def test_the_wire_format_of_hyper_parameters(line, monkeypatch):
    """Byte for byte equal to TensorBoard's messages; in integration_tests, TensorBoard reads it."""
    monkeypatch.setattr(time, "time", lambda: 2.0)
    line.run([], monitors=[TFEventWriter(hparams={"a": 1.0, "b": "x", "c": True})])
    content = written_hparams(line.log_dir)
    entries = (
        b"\x0a\x0e\x0a\x01a\x12\x09\x11" + bytes(6) + b"\xf0\x3f" + b"\x0a\x08\x0a\x01b\x12\x03\x1a\x01x"
    )
    entries += b"\x0a\x07\x0a\x01c\x12\x02\x20\x01" + b"\x29" + bytes(7) + b"\x40"
    assert content == b"\x1a" + bytes([len(entries)]) + entries
