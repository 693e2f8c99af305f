"""The target network: a late or slow copy of the one that is trained, for targets that stand still."""

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
    """Copies the trained network into the target network, every so many updates.

    Args:
        every: updates.

    Raises:
        ConfigError: the number is not one from 1 up.
    """

    every: int = 1000

    def __attrs_post_init__(self) -> None:
        at_least("TargetCopy", "every", self.every)


@final
@attrs.frozen
class TargetAverage:
    """Moves the target network a little towards the trained one, in each update.

    Args:
        rate: the part of the difference that it moves by (tau in Lillicrap et al. 2016, arXiv:1509.02971).

    Raises:
        ConfigError: the rate is not above 0, or is more than 1.
    """

    rate: float = 0.005

    def __attrs_post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"TargetAverage(rate={self.rate!r}): expected a number above 0, at most 1.")


TargetRule: TypeAlias = TargetCopy | TargetAverage


@final
class TargetNetwork(Callback):
    """Keeps the target network; it begins as a copy, also where weights are restored without it.

    Args:
        rule: how it follows the trained network.
    """

    chief_only = False

    def __init__(self, rule: TargetRule) -> None:
        self._rule = rule

    def within(self, train_op: tf.Operation) -> tf.Operation:
        """Returns the op of an update, and of what follows in each one."""
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
        """Returns when it is copied."""
        return Every(steps=self._rule.every) if isinstance(self._rule, TargetCopy) else None

    def _trigger_step(self) -> None:
        self.trainer.sess.run(self._copy)


def target_pairs() -> list[tuple[tf.Variable, tf.Variable]]:
    """Returns each variable of the graph that the target network has a copy of, and the copy.

    Raises:
        ModelError: the target network has a variable that the trained one has not.
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
                f"The network has made the variable {name!r} when it was added as the target network, and "
                "none of that name otherwise. Let the names of its variables depend on nothing but the model."
            )
        pairs.append((online, target))
    return pairs
