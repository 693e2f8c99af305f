"""The options of the scripts in this folder, and a training with them.

    --epochs 2        a shorter training
    --seed 1          another training
    --log-dir DIR     where checkpoints and statistics go

The last line that a script prints is its figure.
"""

import argparse
import logging
import tempfile
from pathlib import Path

from towerpack_callbacks import ModelSaver
from towerpack_trainers import SimpleTrainer, TrainConfig


def run(train_on, make_files, description, epochs, data):
    """Trains with the options of the command line, and prints the figure.

    Args:
        train_on: trains on the files in a folder, with the options of the command line; returns the figure.
        make_files: writes the files to a temporary folder if the command line has no folder.
        description: of the script; its first line is printed by `--help`.
        epochs: the last epoch, unless the command line has another.
        data: the description of `--data`.
    """
    options = read_options(description, epochs, data)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.data is not None:
        print(train_on(options.data, options))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        print(train_on(Path(folder), options))


def read_options(description, epochs, data):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    directory = Path("train_log") / Path(parser.prog).stem
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=data)
    parser.add_argument("--epochs", type=int, default=epochs, help=f"the last epoch; {epochs} if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0 if not given")
    parser.add_argument("--log-dir", type=Path, default=directory, help=f"{directory} if not given")
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
