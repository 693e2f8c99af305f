"""The progress counters of a training, under the names that callbacks use."""

from __future__ import annotations

from towerpack_callbacks import LoopState

__all__ = ["LoopCounters"]


class LoopCounters:
    """Adds the counters of its loop to a trainer, as attributes with the same names as in a callback.

    They are whole numbers at any time, even before a graph exists. An op that needs the number of the step,
    such as a schedule, uses `tf.train.get_or_create_global_step()`: a number would become a constant in it.

    Attributes:
        loop: the counters.

    Example:
        ```python
        class InTurn(SimpleTrainer):
            def run_step(self):
                if self.global_step % 5 == 0:
                    self.hooked_sess.run(self.other_op)
                super().run_step()
        ```
    """

    loop: LoopState

    @property
    def epoch_num(self) -> int:
        """The current epoch, from 1."""
        return self.loop.epoch_num

    @property
    def local_step(self) -> int:
        """The current step within the epoch, from 0."""
        return self.loop.local_step

    @property
    def global_step(self) -> int:
        """The number of finished steps."""
        return self.loop.global_step

    @property
    def env_steps(self) -> int:
        """The number of steps of an agent in its environments; 0 for other trainings."""
        return self.loop.env_steps
