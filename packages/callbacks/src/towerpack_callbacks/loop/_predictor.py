"""A function from arrays to arrays on a live session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["make_predictor"]


def make_predictor(
    get_session: Callable[[], tf.Session], feeds: Sequence[tf.Tensor], fetches: Sequence[tf.Tensor]
) -> Callable[..., list[Any]]:
    """Makes a function that takes one array per tensor of `feeds` and returns one per tensor of `fetches`.

    Args:
        get_session: called at each prediction, so that the session may be made later.
        feeds: tensors to feed.
        fetches: tensors to fetch.
    """
    names = [feed.op.name for feed in feeds]

    def predict(*arrays: np.ndarray) -> list[Any]:
        if len(arrays) != len(names):
            raise TypeError(
                f"The predictor takes {len(names)} arrays ({', '.join(names)}), received {len(arrays)}."
            )
        sess = get_session()
        # Outside its graph a tensor cannot be a dictionary key where eager execution is on.
        with sess.graph.as_default():
            outputs: list[Any] = sess.run(list(fetches), dict(zip(feeds, arrays)))
        return outputs

    return predict
