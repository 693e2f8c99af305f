"""Wrappers of sources: `ProxyInputSource`, and the remapping of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._errors import SpecError
from ._feed_input import placeholder_for
from ._source import NO_PAUSE, InputSource
from .prefetch._flow_reader import RefittedState
from .prefetch._input_status import InputStatus

__all__ = ["ProxyInputSource", "remap_input_source"]


class ProxyInputSource(InputSource):
    """Forwards all calls to another source; base class of sources that modify one aspect.

    Override the methods with a leading underscore; `super()` calls the same method of the other source.

    Args:
        source: the other source; not set up yet.

    Raises:
        TypeError: `source` is not an InputSource.

    Example:
        >>> class Halved(ProxyInputSource):
        ...     def _get_input_tensors(self, specs):
        ...         return [tensor / 2 for tensor in super()._get_input_tensors(specs)]
    """

    def __init__(self, source: InputSource) -> None:
        if not isinstance(source, InputSource):
            raise TypeError(
                f"{type(self).__name__} wraps an InputSource, but received {source!r}. "
                "For a DataFlow, write QueueInput(df)."
            )
        self.source = source
        self.infinite = source.infinite
        self.feed_free = source.feed_free

    def seed(self, seed: int) -> None:
        """Seeds the other source's data."""
        self.source.seed(seed)

    @property
    def sharded(self) -> bool | None:
        """Whether the other source's data are one process's share of an order; None: unknown."""
        return self.source.sharded

    @property
    def endless(self) -> bool:
        """Whether no pass of the other source ends."""
        return self.source.endless

    def size(self) -> int | None:
        """Returns the other source's size."""
        return self.source.size()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position of the other source."""
        self.source.load_state_dict(state)

    def refit(self, state: Mapping[str, Any]) -> RefittedState | None:
        """Translates a state of the other source; see `InputSource.refit()`."""
        return self.source.refit(state)

    def status(self) -> InputStatus:
        """Returns the other source's status."""
        return self.source.status()

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self.source.setup(specs)

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        return self.source.get_input_tensors()

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return self.source.hooks()

    def _reset_state(self) -> None:
        self.source.reset_state()

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        return self.source._state(dequeues, paused)

    def _interrupt(self) -> None:
        self.source._interrupt()

    def _abandon(self) -> None:
        self.source._abandon()

    def _hold_back(self, dequeues: int) -> None:
        self.source._hold_back(dequeues)


def remap_input_source(source: InputSource, names: Sequence[str]) -> InputSource:
    """Returns a source for a model with more inputs than components, or in another order.

    Args:
        source: the source of the components; not set up yet.
        names: for each component of the data, the name of the model's input. All other inputs become
            placeholders: feed them with each run.

    Raises:
        ValueError: a name is given twice.
        SpecError: (at `setup()`) the model has no input with a given name.

    Example:
        >>> from towerpack_inputsource import TensorInput
        >>> with tf.Graph().as_default():
        ...     source = remap_input_source(TensorInput(lambda: [tf.constant(3)]), ["b"])
        ...     source.setup([tf.TensorSpec([], tf.float32, "a"), tf.TensorSpec([], tf.int32, "b")])
        ...     a, b = source.get_input_tensors()
        ...     with tf.Session() as session:
        ...         print(*session.run([a, b], {"a:0": 0.5}))
        0.5 3
    """
    return _Remapped(source, names)


@final
class _Remapped(ProxyInputSource):
    def __init__(self, source: InputSource, names: Sequence[str]) -> None:
        super().__init__(source)
        self._names = list(names)
        if len(set(self._names)) != len(self._names):
            raise ValueError(
                f"Each component maps to a different input, but {self._names} contains a name "
                "twice. Give each name once."
            )

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        declared = {spec.name: spec for spec in specs}
        unknown = [name for name in self._names if name not in declared]
        if unknown:
            raise SpecError(
                f"remap_input_source() names {unknown}, but the model's inputs are {list(declared)}. "
                "Give names from this list."
            )
        self._fed = {
            name: placeholder_for(spec) for name, spec in declared.items() if name not in self._names
        }
        self.feed_free = self.source.feed_free and not self._fed
        self.source.setup([declared[name] for name in self._names])

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        given = dict(zip(self._names, self.source.get_input_tensors()))
        return [given[spec.name] if spec.name in given else self._fed[spec.name] for spec in specs]
