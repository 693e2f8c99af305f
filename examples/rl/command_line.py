"""The command line that the scripts of this folder share which train.

--env NAME     what to learn
--seed 1       another training; evaluations and tests have seeds of their own
"""

import argparse
import logging
from collections.abc import Callable, Iterable
from pathlib import Path


def run(
    train: Callable[..., None],
    environments: Iterable[str],
    description: str,
    parser: argparse.ArgumentParser | None = None,
) -> None:
    """Trains as the command line says.

    Args:
        train: takes the name of an environment, a seed, a log directory, and options of the script's own.
        environments: names of those that the script has settings for.
        description: of the script; its first line is printed by `--help`.
        parser: has options of the script's own.
    """
    parser = parser or argparse.ArgumentParser()
    parser.description = description.splitlines()[0]
    parser.add_argument("--env", default="CartPole-v1", choices=environments)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    env, seed = options.pop("env"), options.pop("seed")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(env, seed, log_directory(Path(parser.prog).stem, env, seed), **options)


def log_directory(script: str, env: str, seed: int) -> Path:
    """Returns where a training writes."""
    return Path("train_log") / f"{script}-{env.replace('/', '-')}-{seed}"
