from __future__ import annotations

import logging
import threading

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected, disable_layer_logging


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "towerpack_layers")


def layer(name: str) -> None:
    FullyConnected(name, tf.ones([1, 2]), 3)


def test_within_a_block(graph: tf.Graph, caplog: pytest.LogCaptureFixture) -> None:
    with disable_layer_logging():
        layer("a")
        with disable_layer_logging():
            layer("b")
        layer("c")
    layer("d")
    assert caplog.messages == ["d: (1, 2) -> (1, 3)"]


def test_from_now_on_until_it_is_closed(graph: tf.Graph, caplog: pytest.LogCaptureFixture) -> None:
    end = disable_layer_logging()
    layer("a")
    end.close()
    layer("b")
    assert caplog.messages == ["b: (1, 2) -> (1, 3)"]


def test_an_exception_ends_it(graph: tf.Graph, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyError), disable_layer_logging():
        raise KeyError
    layer("a")
    assert len(caplog.messages) == 1


def test_it_holds_for_one_thread(graph: tf.Graph, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        with graph.as_default():
            layer("a")

    with disable_layer_logging():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        layer("b")
    assert caplog.messages == ["a: (1, 2) -> (1, 3)"]
