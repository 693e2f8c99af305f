"""Images and histograms as summaries, without a graph."""

import numpy as np
import pytest
import tensorflow as tf2

from towerpack_callbacks import LoopState, Monitor, Monitors, TFEventWriter
from towerpack_callbacks.monitors._hparams import session_start_summary
from towerpack_callbacks.monitors._media_summaries import (
    histogram_summary,
    histograms_of,
    image_summary,
    images_of,
)


def decode(encoded):
    return tf2.io.decode_png(encoded).numpy()


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_an_image_comes_back_as_it_was(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    [(tag, encoded)] = images_of(image_summary("a", image))
    assert tag == "a"
    np.testing.assert_array_equal(decode(encoded), image.reshape(5, 7, -1))


def test_several_images_are_numbered_and_numbers_are_clipped():
    images = np.zeros((2, 1, 4, 1))
    images[1, 0, :, 0] = [-5, 99.6, 300, np.nan]
    found = dict(images_of(image_summary("a", images)))
    assert sorted(found) == ["a/0", "a/1"]
    np.testing.assert_array_equal(decode(found["a/1"])[0, :, 0], [0, 100, 255, 0])


@pytest.mark.parametrize("shape", [(5,), (5, 7, 5), (0, 7), (1, 2, 3, 4, 5)])
def test_what_is_no_image(shape):
    with pytest.raises(ValueError, match=r"put_image\('a'\) takes \[height, width\].*received shape"):
        image_summary("a", np.zeros(shape))
    with pytest.raises(TypeError, match=r"put_image\('a'\) takes an array of numbers in 0…255, received <U"):
        image_summary("a", np.full(shape, "x"))


def test_a_histogram_counts_what_is_finite():
    values = np.concatenate([np.arange(100), [np.nan, np.inf]])
    summary = histogram_summary("a", values)
    [(tag, counts, edges)] = histograms_of(summary)
    assert (tag, counts.sum(), edges[0], edges[-1]) == ("a", 100, 0, 99)
    np.testing.assert_array_equal(np.histogram(np.arange(100), edges)[0], counts)
    histogram = summary.value[0].histo
    assert (histogram.num, histogram.sum, histogram.sum_squares) == (100, 4950, 328350)


def test_histograms_of_tensorflows_own_summaries():
    with tf2.Graph().as_default(), tf2.compat.v1.Session() as sess:
        serialized = sess.run(tf2.compat.v1.summary.histogram("a", [-1.0, 0.5, 2.0]))
    [(_, counts, edges)] = histograms_of(tf2.compat.v1.Summary.FromString(serialized))
    assert counts.sum() == 3 and edges[0] == -1 and edges[-1] == 2
    assert (np.diff(edges) >= 0).all()


def test_what_is_no_histogram():
    with pytest.raises(
        ValueError, match=r"put_histogram\('a'\) takes numbers of which some are finite; none of 2"
    ):
        histogram_summary("a", [np.nan, np.inf])
    with pytest.raises(TypeError, match=r"put_histogram\('a'\) takes an array of numbers, received object"):
        histogram_summary("a", [None])


def test_monitors_pass_media_on_with_the_step():
    class Listen(Monitor):
        """Remembers what it receives."""

        def process_summary(self, summary, global_step):
            received.append((global_step, [value.tag for value in summary.value]))

    received = []
    monitors = Monitors([Listen()], LoopState(steps_per_epoch=1, global_step=7))
    monitors.put_image("image", np.zeros((2, 2)))
    monitors.put_histogram("histogram", [1.0])
    assert received == [(7, ["image"]), (7, ["histogram"])]


def test_hyper_parameters_are_in_the_event_file(line):
    line.run([], monitors=[TFEventWriter(hparams={"rate": 0.5, "täte": "x" * 200, "on": False})])
    [path] = line.log_dir.glob("events.*")
    summaries = [event.summary for event in tf2.compat.v1.train.summary_iterator(str(path))]
    [value] = [value for summary in summaries for value in summary.value]
    content = value.metadata.plugin_data.content
    assert value.metadata.plugin_data.plugin_name == "hparams"
    assert "täte".encode() in content and b"x" * 200 in content
    with pytest.raises(TypeError, match=r"TFEventWriter\(hparams=\.\.\.\): 'a' is None"):
        TFEventWriter(hparams={"a": None})


def test_the_wire_format_of_hyper_parameters():
    """Byte for byte what TensorBoard's own messages are; in integration_tests, TensorBoard reads it."""
    content = (
        session_start_summary({"a": 1.0, "b": "x", "c": True}, 2.0).value[0].metadata.plugin_data.content
    )
    entries = (
        b"\x0a\x0e\x0a\x01a\x12\x09\x11" + bytes(6) + b"\xf0\x3f" + b"\x0a\x08\x0a\x01b\x12\x03\x1a\x01x"
    )
    entries += b"\x0a\x07\x0a\x01c\x12\x02\x20\x01" + b"\x29" + bytes(7) + b"\x40"
    assert content == b"\x1a" + bytes([len(entries)]) + entries
