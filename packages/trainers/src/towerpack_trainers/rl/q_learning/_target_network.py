"""The target network: a delayed or slow copy of the trained network, for stable targets."""

from __future__ import annotations

from typing import TypeAlias, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every
from towerpack_callbacks.graph import begin_as_copies

from ..._argument_checks import at_least
from ..._errors import ConfigError, ModelError
from ._off_policy_model import TARGET_SCOPE

__all__ = ["TargetAverage", "TargetCopy", "TargetNetwork", "TargetRule", "target_pairs"]


@final
@attrs.frozen
class TargetCopy:
    """Copies the trained network into the target network periodically.

    Args:
        every: the period, in updates.

    Raises:
        ConfigError: the period is not a number of at least 1.
    """

    every: int = 1000

    def __attrs_post_init__(self) -> None:
        at_least("TargetCopy", "every", self.every)


@final
@attrs.frozen
class TargetAverage:
    """Moves the target network a little towards the trained one, in each update.

    Args:
        rate: the fraction of the difference to move by (tau in Lillicrap et al. 2016, arXiv:1509.02971).

    Raises:
        ConfigError: the rate is not above 0, or is above 1.
    """

    rate: float = 0.005

    def __attrs_post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"TargetAverage(rate={self.rate!r}): expected a number above 0, at most 1.")


TargetRule: TypeAlias = TargetCopy | TargetAverage


@final
class TargetNetwork(Callback):
    """Updates the target network. It begins as a copy, even if the restored weights do not include it.

    Args:
        rule: the update rule.
    """

    chief_only = False

    def __init__(self, rule: TargetRule) -> None:
        self._rule = rule

    def within(self, train_op: tf.Operation) -> tf.Operation:
        """Returns the op of an update together with the ops that follow every update."""
        if isinstance(self._rule, TargetCopy):
            return train_op
        with tf.control_dependencies([train_op]), tf.name_scope("target_average"):
            moves = [
                target.assign_add(self._rule.rate * (online.read_value() - target.read_value()))
                for online, target in target_pairs()
            ]
            return tf.group(*moves, name="update")

    def _setup_graph(self) -> None:
        pairs = target_pairs()
        begin_as_copies(self.graph, ((target, online) for online, target in pairs))
        self._copy: tf.Operation = tf.group(
            *(target.assign(online.read_value()) for online, target in pairs), name="copy"
        )

    def _before_train(self) -> None:
        if self.global_step == 0:
            self._trigger_step()

    def step_period(self) -> Every | None:
        """Returns the period of copying."""
        return Every(steps=self._rule.every) if isinstance(self._rule, TargetCopy) else None

    def _trigger_step(self) -> None:
        self.trainer.sess.run(self._copy)


def target_pairs() -> list[tuple[tf.Variable, tf.Variable]]:
    """Returns pairs of variables: each trained variable with a copy in the target network, and the copy.

    Raises:
        ModelError: the target network has a variable that the trained network does not have.
    """
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    pairs = []
    for name, target in variables.items():
        if f"/{TARGET_SCOPE}/" not in f"/{name}":
            continue
        before, _, after = f"/{name}".partition(f"/{TARGET_SCOPE}/")
        online = variables.get(f"{before}/{after}".lstrip("/"))
        if online is None:
            raise ModelError(
                f"The network has made the variable {name!r} as the target network, but no variable of that "
                "name otherwise. The names of its variables must depend only on the model."
            )
        pairs.append((online, target))
    return pairs
