"""A graph for each test, and a short way to get numbers out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

# Where the table of layers is, which several test files and other sessions import.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    """A new graph, as the default graph of the test."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        yield graph


@pytest.fixture
def run(graph: tf.Graph) -> Callable[..., Any]:
    """Initialise all variables, then evaluate the fetches."""

    def evaluate(fetches: Any, feed: Any = None) -> Any:
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            return session.run(fetches, feed)

    return evaluate
