"""A replica for evaluation, with an input of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_inputsource import InputSource

from ._tower import Tower

__all__ = ["EvaluationTower"]


class EvaluationTower:
    """Runs a tower over one pass of its input; a `towerpack_callbacks.InferenceTower`.

    Its input's hooks run in these passes alone, never with a training step.

    Args:
        tower: the replica.
        source: its input; it ends after each pass.
    """

    def __init__(self, tower: Tower, source: InputSource) -> None:
        self._tower = tower
        self._source = source
        self._hooks = source.hooks()
        self._sess: tf.Session = None
        first = next(iter(tower.inputs.values()))
        # Inputs without a batch dimension count as one example.
        self._batch_size = tf.constant(1) if first.shape.rank == 0 else tf.shape(first)[0]
        for hook in self._hooks:
            hook.begin()

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Tensors of this replica by the names the model gave them."""
        return self._tower.get_tensors(names)

    def start(self, sess: tf.Session, coord: tf.train.Coordinator) -> None:
        """Tells the input that the session is there."""
        self._sess, self._coord = sess, coord
        for hook in self._hooks:
            hook.after_create_session(sess, coord)

    def stop(self) -> None:
        """Tells the input that the session is about to close."""
        for hook in self._hooks:
            hook.end(self._sess)

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input; see `towerpack_callbacks.InferenceTower`."""
        self._source.reset_state()
        wanted = [fetches, self._batch_size]
        call = self._sess.make_callable(wanted)
        while True:
            try:
                values, batch_size = self._run(wanted, call)
            except tf.errors.OutOfRangeError:
                # A failure in the input's thread ends the input, too.
                self._coord.raise_requested_exception()
                return
            yield values, int(batch_size)

    def _run(self, wanted: list[Any], call: Any) -> Any:
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs(wanted), self._sess)
        args = [hook.before_run(context) for hook in self._hooks]
        feeds = {
            tensor: value for arg in args if arg and arg.feed_dict for tensor, value in arg.feed_dict.items()
        }
        results = self._sess.run(wanted, feeds) if feeds else call()
        for hook in self._hooks:
            hook.after_run(context, tf.train.SessionRunValues(None, None, None))
        return results
