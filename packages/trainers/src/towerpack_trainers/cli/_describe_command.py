"""`describe`: lists what a model trains, and what a forward pass costs."""

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
        description="Lists the trainable variables of a model, with the floating-point operations that a "
        "forward pass to the outputs does with each: for one example where the batch size is not known, "
        "else for one batch. What a checkpoint holds is listed by "
        "`python -m towerpack_callbacks checkpoint vars`.",
    )
    add_model(parser)
    parser.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> int:
    with OfflinePredictor(make_config(options, None)) as predictor:
        print(describe_trainable_variables(predictor.graph, predictor.outputs))
    return 0
