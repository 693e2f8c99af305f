"""The common command line of the training scripts in this folder.

--env NAME     the environment
--seed 1       the seed of the training; evaluations and tests have other seeds
"""

import argparse
import logging
from collections.abc import Callable, Iterable
from pathlib import Path


def run(
    train: Callable[..., None],
    environments: Iterable[str],
    description: str | None,
    parser: argparse.ArgumentParser | None = None,
) -> None:
    """Trains with the options of the command line.

    Args:
        train: takes the name of an environment, a seed, a log directory, and further options of the script.
        environments: names of the environments with settings.
        description: of the script; its first line is printed by `--help`.
        parser: the parser of further options.
    """
    parser = parser or argparse.ArgumentParser()
    parser.description = (description or "").partition("\n")[0]
    parser.add_argument("--env", default="CartPole-v1", choices=environments)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    env, seed = options.pop("env"), options.pop("seed")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(env, seed, log_directory(Path(parser.prog).stem, env, seed), **options)


def log_directory(script: str, env: str, seed: int) -> Path:
    """Returns the log directory of a training."""
    return Path("train_log") / f"{script}-{env.replace('/', '-')}-{seed}"
