"""The configuration of a training in two parts: the arguments of its graph first, the others later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import attrs

from towerpack_inputsource import InputSource

from .._errors import ConfigError, TrainerStateError
from ..towers._model_desc import ModelDesc
from ._train_config import TrainConfig

__all__ = ["ConfigInParts"]

_OF_THE_MODEL = ("model", "dataflow", "data", "optimizer")


@final
class ConfigInParts:
    """Combines the arguments of `setup_graph` and `train` into one configuration.

    Arguments that the graph depends on, such as its seed, cannot change once the graph is built. The second
    part refuses them, and the error names the place where they belong.

    Args:
        trainer: the trainer's name, for messages.
        whole: whether the trainer was made with a complete configuration, so that no part is accepted.

    Attributes:
        waiting: whether the graph is not built yet.
    """

    def __init__(self, trainer: str, whole: bool) -> None:
        self.waiting = not whole
        self._trainer = trainer
        self._first: TrainConfig | None = None
        self._complete = whole

    def begin(self, model: ModelDesc, data: Any, arguments: Mapping[str, Any]) -> TrainConfig:
        """Returns the configuration from which to build the graph.

        Args:
            model: the model.
            data: an `InputSource` or a DataFlow.
            arguments: further arguments of a `TrainConfig`.

        Raises:
            ConfigError: an argument is invalid, or repeats the model or the data.
        """
        self._refuse(arguments, _OF_THE_MODEL, "Use its arguments signature, input and the functions.")
        if data is None:
            raise ConfigError(f"{self._trainer}.setup_graph(input=None): expected a DataFlow or InputSource.")
        source = {"data" if isinstance(data, InputSource) else "dataflow": data}
        self._first = TrainConfig(**{**arguments, **source, "model": model})
        self.waiting = False
        return self._first

    def complete(self, arguments: Mapping[str, Any], seed: int) -> TrainConfig | None:
        """Returns the complete configuration; None if the trainer already has it and nothing is added.

        Args:
            arguments: arguments of a `TrainConfig` that extend or replace those of the graph.
            seed: the seed of the graph.

        Raises:
            TrainerStateError: the graph is not built, or the configuration is already complete.
            ConfigError: the arguments need a different graph.
        """
        if self._complete:
            self._refuse_late(arguments)
            return None
        first = self._first
        assert first is not None
        self._refuse(arguments, _OF_THE_MODEL, "Pass them to setup_graph, as signature, input and functions.")
        config = attrs.evolve(first, **arguments)
        self._check_same_graph(first, config, seed)
        self._complete = True
        return attrs.evolve(config, seed=seed)

    def check_may_begin(self) -> None:
        """Checks that the trainer has no graph yet.

        Raises:
            TrainerStateError: the trainer was made with a `TrainConfig`, or its graph is already built.
        """
        if self._first is not None:
            raise TrainerStateError(
                f"{self._trainer}.setup_graph was called before; one trainer is one training. Make a new one."
            )
        if not self.waiting:
            raise TrainerStateError(
                f"{self._trainer} was made with a TrainConfig, which has its model. Make it without one, as "
                f"{self._trainer}(), and then call setup_graph; or omit setup_graph."
            )

    def check_has_begun(self) -> None:
        """Checks that the trainer has a graph.

        Raises:
            TrainerStateError: the trainer was made without a `TrainConfig`, and `setup_graph` was not called.
        """
        if self.waiting:
            raise TrainerStateError(
                f"{self._trainer} was made without a TrainConfig, and has nothing to train yet. Call "
                "setup_graph(signature, input, cost_fn, optimizer_fn) first, or make it with a TrainConfig."
            )

    def check_seed(self, built: int, resumed: int) -> None:
        """Checks that the graph was built with the seed of the resumed run.

        Raises:
            ConfigError: the seeds differ.
        """
        if built != resumed:
            raise ConfigError(
                f"{self._trainer} has built its graph with seed {built}, but the run to resume has seed "
                f"{resumed}. Call setup_graph(..., seed={resumed}), or pass resume= and log_dir= to "
                "setup_graph."
            )

    def _refuse_late(self, arguments: Mapping[str, Any]) -> None:
        names = ", ".join(arguments)
        if names and self._first is None:
            raise ConfigError(
                f"{self._trainer}.train received {names}, but it was made with a TrainConfig. Pass all "
                "arguments to the TrainConfig: attrs.evolve(config, ...) makes a changed copy."
            )
        if names:
            raise TrainerStateError(
                f"{self._trainer} received {names} after its training was set up by an earlier explain() or "
                "train(). Pass them there; a train() after explain(...) takes no arguments."
            )

    def _refuse(self, arguments: Mapping[str, Any], names: tuple[str, ...], advice: str) -> None:
        refused = [name for name in names if name in arguments]
        if refused:
            raise ConfigError(f"{self._trainer} does not take {', '.join(refused)} here. {advice}")

    def _check_same_graph(self, first: TrainConfig, config: TrainConfig, seed: int) -> None:
        changed = [name for name in ("seed", "xla") if getattr(config, name) != getattr(first, name)]
        if changed and not (changed == ["seed"] and config.seed == seed):
            raise ConfigError(
                f"The graph of {self._trainer} is already built, with another {' and '.join(changed)}. Pass "
                f"{' and '.join(f'{name}=' for name in changed)} to setup_graph."
            )
        resumed = _what_is_resumed(config)
        if first.seed is None and resumed is not None and resumed != _what_is_resumed(first):
            raise ConfigError(
                f"{self._trainer} has built its graph with a random seed, but a resumed run keeps its "
                "original seed. Pass resume= (and log_dir=) to setup_graph, or pass seed= to setup_graph in "
                "all runs."
            )


def _what_is_resumed(config: TrainConfig) -> Any:
    return (config.resume, config.log_dir) if config.resume == "auto" else config.resume
