"""`describe`: lists the trained variables of a model and the cost of a forward pass."""

from __future__ import annotations

import argparse
from typing import Any

from ..predict import OfflinePredictor
from ..reports._describe_training import describe_trainable_variables
from ._model_arguments import add_model, make_config

__all__ = ["add_describe"]


def add_describe(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "describe",
        help="list a model's variables: name, shape, elements, dtype, and floating-point operations",
        description="Lists the trainable variables of a model, with the floating-point operations of each in "
        "a forward pass to the outputs: for one example if the batch size is unknown, otherwise for one "
        "batch. To list the contents of a checkpoint, use "
        "`python -m towerpack_callbacks checkpoint vars`.",
    )
    add_model(parser)
    parser.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> int:
    with OfflinePredictor(make_config(options, None)) as predictor:
        print(describe_trainable_variables(predictor.graph, predictor.outputs))
    return 0
