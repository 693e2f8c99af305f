"""The numbers that tell how far a training is, under the names that callbacks know them by."""

from __future__ import annotations

from towerpack_callbacks import LoopState

__all__ = ["LoopCounters"]


class LoopCounters:
    """Gives a trainer the counters of its loop as attributes, as a callback has them.

    They are whole numbers at any time, before a graph exists too. An op that needs the number of the step,
    such as a schedule, takes `tf.train.get_or_create_global_step()`: a number would be a constant in it.

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
        """The running epoch, from 1."""
        return self.loop.epoch_num

    @property
    def local_step(self) -> int:
        """The running step within the epoch, from 0."""
        return self.loop.local_step

    @property
    def global_step(self) -> int:
        """The number of finished steps."""
        return self.loop.global_step

    @property
    def env_steps(self) -> int:
        """The number of steps that an agent has taken in its environments; 0 where there is none."""
        return self.loop.env_steps
