"""The command line that the scripts of this folder share.

    --seed 1          the seed of the training; the evaluation has another seed
    --epochs 2        a shorter training
    --log-dir DIR     where checkpoints, statistics and `result.json` go
    --evaluate        no training: the figure of the existing checkpoint

The last line that a script prints is its figure.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from evaluation import Verdict


def run(
    train: Callable[[argparse.Namespace], None],
    evaluate: Callable[[Path], Verdict],
    description: str | None,
    epochs: int,
    parser: argparse.ArgumentParser | None = None,
) -> Verdict:
    """Trains with the options of the command line, evaluates the checkpoint, and prints the figure.

    Args:
        train: trains with the options `seed`, `epochs` and `log_dir`, and leaves a checkpoint in `log_dir`.
        evaluate: evaluates the checkpoint of a log directory.
        description: of the script; its first line is printed by `--help`, its name is in it before a colon.
        epochs: the last epoch, unless the command line has another.
        parser: has options of the script's own.
    """
    options = read_options(description, epochs, parser)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    start = time.perf_counter()
    if not options.evaluate:
        train(options)
    verdict = evaluate(options.log_dir)
    if not options.evaluate:
        write_result(options, verdict, time.perf_counter() - start)
    for criterion, met in verdict.criteria.items():
        print(f"{criterion}: {'met' if met else 'missed'}")
    print(verdict.line)
    return verdict


def read_options(
    description: str | None, epochs: int, parser: argparse.ArgumentParser | None
) -> argparse.Namespace:
    """Reads the command line."""
    parser = parser or argparse.ArgumentParser()
    parser.description = (description or "").partition("\n")[0]
    directory = Path("train_log") / Path(parser.prog).stem
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0 if not given")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"the last epoch; {epochs} if not given")
    parser.add_argument("--log-dir", type=Path, default=directory, help=f"{directory} if not given")
    parser.add_argument("--evaluate", action="store_true", help="evaluate the checkpoint of an earlier run")
    return parser.parse_args()


def write_result(options: argparse.Namespace, verdict: Verdict, seconds: float) -> None:
    """Writes `result.json` into the log directory."""
    result = {
        "figure": verdict.line,
        "figures": verdict.figures,
        "criteria": verdict.criteria,
        "passed": verdict.passed,
        "seconds": round(seconds, 1),
        "options": {name: str(value) for name, value in vars(options).items()},
    }
    text = json.dumps(result, indent=2, ensure_ascii=False)
    (options.log_dir / "result.json").write_text(f"{text}\n", encoding="utf-8")
