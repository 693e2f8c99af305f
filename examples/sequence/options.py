"""The options of the scripts in this folder, and a training as they say.

    --epochs 2        a shorter training
    --seed 1          another training
    --log-dir DIR     where checkpoints and statistics go

The last line that a script prints is its figure.
"""

import argparse
import logging
from pathlib import Path

from towerpack_callbacks import ModelSaver
from towerpack_trainers import SimpleTrainer, TrainConfig


def read_options(description, epochs, data):
    """Reads the command line, and lets the training say how it goes.

    Args:
        description: of the script; its first line is printed by `--help`.
        epochs: the last epoch, unless the command line has another.
        data: what `--data` is for.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    directory = Path("train_log") / Path(parser.prog).stem
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=data)
    parser.add_argument("--epochs", type=int, default=epochs, help=f"the last epoch; {epochs} if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0 if not given")
    parser.add_argument("--log-dir", type=Path, default=directory, help=f"{directory} if not given")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return parser.parse_args()


def train(model, flow, options, callbacks):
    """Trains on one device; returns the monitors, which have the statistics."""
    config = TrainConfig(
        model=model,
        dataflow=flow,
        callbacks=[ModelSaver(keep_last=1), *callbacks],
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    return trainer.monitors
