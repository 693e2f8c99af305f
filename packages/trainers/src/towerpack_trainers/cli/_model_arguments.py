"""Shared parts of the commands on a trained model: error, model, checkpoint and progress bar."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from tqdm import tqdm

from ..predict import PredictConfig
from ..restore import SaverRestore
from ..towers._model_desc import ModelDesc

__all__ = ["CommandError", "add_model", "add_trained_model", "make_config", "show_progress"]


class CommandError(Exception):
    """A command failed; the message gives the reason in one line, and the exit status is 1."""


def add_trained_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for a checkpoint, the model, and its weights."""
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        type=Path,
        help="a checkpoint, or a log directory (its latest checkpoint is used); or a TensorFlow checkpoint, "
        "or a .npz file",
    )
    add_model(parser)
    parser.add_argument(
        "--ema", action="store_true", help="use the moving averages of the callback EMA as weights"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for a model and its outputs."""
    parser.add_argument(
        "--model",
        required=True,
        type=_model_name,
        metavar="MODULE:CLASS",
        help="the model, such as package.module:Class, as importable from this directory; a ModelDesc class, "
        "or a function without arguments that returns a model",
    )
    parser.add_argument(
        "--outputs", required=True, nargs="+", metavar="NAME", help="tensors, by their names in the model"
    )


def make_config(options: argparse.Namespace, inputs: Sequence[str] | None) -> PredictConfig:
    """Returns the prediction configuration for the arguments.

    Raises:
        CommandError: the model or the checkpoint does not exist.
    """
    model = _load_model(*options.model)
    source: Path | None = getattr(options, "checkpoint", None)
    if source is not None and not source.exists() and not source.with_name(f"{source.name}.index").exists():
        raise CommandError(f"there is no checkpoint {source}")
    config = PredictConfig(
        model=model,
        session_init=None if source is None else SaverRestore(source),
        input_names=inputs,
        output_names=options.outputs,
    )
    return attrs.evolve(config, ema=True) if getattr(options, "ema", False) else config


class _Bar(tqdm):  # type: ignore[type-arg]
    """A bar without tqdm's monitor thread, which would outlive the command."""

    monitor_interval = 0


def show_progress(items: Sequence[Any], what: str, unit: str) -> Any:
    """Returns the items with tqdm's progress bar, on a terminal and for more than one item."""
    return _Bar(items, desc=what, unit=unit, disable=True if len(items) == 1 else None)


def _model_name(text: str) -> tuple[str, str]:
    module, colon, name = text.partition(":")
    if not colon or not re.fullmatch(r"\w+(\.\w+)*", module) or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected package.module:Class; received {text!r}")
    return module, name


def _load_model(module_name: str, name: str) -> ModelDesc:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise CommandError(
            f"{module_name} cannot be imported: {error}. Run the command in the directory from which Python "
            "imports it, or set PYTHONPATH"
        ) from error
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, dir(module), n=3)
        raise CommandError(f"{module_name} has no {name}" + (f"; close: {', '.join(close)}" if close else ""))
    model: Any = getattr(module, name)
    if callable(model) and not isinstance(model, ModelDesc):
        try:
            model = model()
        except TypeError as error:
            raise CommandError(
                f"{module_name}:{name} was called without arguments: {error}. Name a function without "
                "arguments"
            ) from error
    if not isinstance(model, ModelDesc):
        raise CommandError(f"{module_name}:{name} returns {type(model).__name__}; expected a ModelDesc")
    return model
