"""Sampling of transitions from a memory: uniformly, or by priority."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, StateError
from ..flow._epoch import draw_seed
from ._episode_links import EpisodeLinks
from ._sum_tree import SumTree

__all__ = ["PrioritizedSampling", "Sampling", "UniformSampling"]

_log = logging.getLogger("towerpack_dataflow")
_SPARE = 16  # draw one more for each group of this size
_DENSE = 4  # redraw unusable rows while at least one row in this many is usable


class Sampling(ABC):
    """Draws the transitions of a batch, for one memory; abstract.

    Args:
        seed: seed of the random numbers; by default one is drawn and logged.
    """

    bytes_per_row = 0

    def __init__(self, seed: int | None = None) -> None:
        """Creates the generator."""
        if seed is None:
            seed = draw_seed()
            _log.info("%s: drew seed %d", type(self).__name__, seed)
        self._random = np.random.default_rng(arguments.count("seed", seed, least=0, most=None))
        self._taken = False

    def prepare(self, slots: int) -> None:
        """Sets the number of slots; call it before all other methods.

        Raises:
            ArgumentError: another memory uses the object.
        """
        if self._taken:
            raise ArgumentError(
                f"sampling belongs to one memory; received a {type(self).__name__} of another memory. "
                "Create one for each"
            )
        self._taken = True

    def changed(self, added: np.ndarray, removed: np.ndarray) -> None:
        """Updates the sampling after transitions were added to or removed from slots."""

    @abstractmethod
    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""

    def weights(self, slots: np.ndarray, count: int) -> np.ndarray | float:
        """Returns the factors for the losses of drawn slots."""
        return 1.0

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of some transitions."""

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the data of some slots to save."""
        return {}

    def restore(self, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores a result of `arrays`."""

    def state_dict(self) -> dict[str, Any]:
        """Returns all other data to save, ready for JSON."""
        return {"kind": type(self).__name__, "random": self._random.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a result of `state_dict`.

        Raises:
            StateError: the state belongs to another kind of sampling.
        """
        if state.get("kind") != type(self).__name__:
            raise StateError(f"the state belongs to {state.get('kind')}; this is {type(self).__name__}")
        self._random.bit_generator.state = state["random"]


@final
class UniformSampling(Sampling):
    """Draws each transition with the same probability, with replacement."""

    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""
        # Draw a few more at once: the starts of episodes are not usable, and a second call costs the same.
        slots = self._usable(links, size + size // _SPARE + _SPARE)
        while len(slots) < size:
            if links.count * _DENSE < links.head - links.tail:
                (choice,) = np.nonzero(links.usable)
                return choice[self._random.integers(len(choice), size=size)]
            slots = np.concatenate([slots, self._usable(links, size)])
        return slots[:size]

    def _usable(self, links: EpisodeLinks, count: int) -> np.ndarray:
        """Draws slots and returns the usable ones."""
        slots = self._random.integers(links.tail, links.head, size=count) % len(links.usable)
        return np.asarray(slots[links.usable[slots]])


@final
class PrioritizedSampling(Sampling):
    """Draws transitions in proportion to their priorities (Schaul et al. 2016, "Prioritized Experience "
    "Replay").

    The range of all priorities is divided into equal parts, one per transition of the batch, and one
    transition is drawn from each. The weights compensate for the probabilities, and are divided by the
    largest one of the batch. A new transition has the largest priority so far.

    Args:
        alpha: exponent of the priorities, 0 for uniform sampling.
        beta: exponent of the weights, 1 for no bias.
        epsilon: added to each priority, so that none is 0.
        seed: seed of the random numbers; by default one is drawn and logged.

    Attributes:
        beta: may be changed while training; the paper increases it from 0.4 to 1.
    """

    bytes_per_row = 9  # 8 and a sixteenth of that, a sixteenth of which, …

    def __init__(
        self, alpha: float = 0.6, beta: float = 0.4, epsilon: float = 1e-6, seed: int | None = None
    ) -> None:
        """Stores the exponents."""
        super().__init__(seed)
        for name, value in [("alpha", alpha), ("beta", beta), ("epsilon", epsilon)]:
            if not 0 <= value < np.inf:
                raise ArgumentError(f"{name} is a finite number from 0 up; received {value!r}")
        self._alpha, self.beta, self._epsilon = float(alpha), float(beta), float(epsilon)
        self._largest = 1.0

    def prepare(self, slots: int) -> None:
        """Creates the tree."""
        super().prepare(slots)
        self._tree = SumTree(slots)
        self._most = np.finfo(np.float64).max / (2 * slots)

    def changed(self, added: np.ndarray, removed: np.ndarray) -> None:
        """Sets new transitions to the largest priority, and dropped ones to 0."""
        weights = np.zeros(len(added) + len(removed))
        weights[: len(added)] = self._largest
        self._tree.set(np.concatenate([added, removed]), weights)

    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""
        total = self._tree.total
        points = (np.arange(size) + self._random.random(size)) * (total / size)
        return self._tree.find(np.minimum(points, np.nextafter(total, 0.0)))

    def weights(self, slots: np.ndarray, count: int) -> np.ndarray:
        """Returns (N P)^-beta, divided by the largest one."""
        inverse = (self._tree.get(slots) * (count / self._tree.total)) ** -self.beta
        return np.asarray(inverse / inverse.max())

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of some transitions."""
        if len(slots):
            with np.errstate(over="ignore"):
                weights = (priorities + self._epsilon) ** self._alpha
            if not (weights <= self._most).all():
                raise ArgumentError(
                    f"priorities to the power of alpha are at most {self._most:g}, so that their sum is "
                    f"finite; received {priorities.max():g}"
                )
            self._largest = max(self._largest, float(weights.max()))
            # A 0 would be a transition that is never drawn again, if epsilon is 0 or vanishes in the sum.
            self._tree.set(slots, np.maximum(weights, np.finfo(np.float64).tiny))

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the priorities of some slots, to the power of alpha."""
        return {"priorities": self._tree.get(slots)}

    def restore(self, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Sets the priorities of these slots, and those of all others to 0."""
        self._tree.clear()
        self._tree.set(slots, arrays.get("priorities", 0.0))

    def state_dict(self) -> dict[str, Any]:
        """Returns the largest priority, the exponents, and the state of the random numbers."""
        powers = {"alpha": self._alpha, "beta": self.beta, "epsilon": self._epsilon}
        return {**super().state_dict(), "largest": self._largest, **powers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a result of `state_dict`.

        Raises:
            StateError: the state belongs to another kind of sampling, or to other exponents.
        """
        for name, mine in {"alpha": self._alpha, "epsilon": self._epsilon}.items():
            if state.get(name, mine) != mine:
                raise StateError(
                    f"the state has priorities with {name}={state[name]}, but these have {name}={mine}; "
                    f"use PrioritizedSampling({name}={state[name]})",
                    {name: (state[name], mine)},
                )
        super().load_state_dict(state)
        self._largest, self.beta = float(state["largest"]), float(state["beta"])
