"""The command line and the trainings of the scripts in this folder.

    --data FOLDER     the files of the data set; by default, generated images
    --epochs 2        a shorter training
    --seed 1          another training
    --log-dir DIR     where checkpoints and statistics go
    --workers 4       processes that read and augment images

The last line that a script prints is its figure.
"""

import argparse
import logging
import tempfile
from pathlib import Path

from towerpack_callbacks import ModelSaver
from towerpack_trainers import SyncMultiGPUTrainer, TrainConfig


def run(train_on, description, epochs, parser=None, make_files=None):
    """Trains with the options of the command line, and prints the figure.

    Args:
        train_on: trains on the files in a folder, with the options of the command line; returns the figure.
        description: of the script; its first line is printed by `--help`.
        epochs: the last epoch, unless the command line has another.
        parser: the parser of further options.
        make_files: writes generated images to a temporary folder if the command line has no folder; None
            passes None instead.
    """
    options = read_options(description, epochs, parser or argparse.ArgumentParser())
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.data is not None or make_files is None:
        print(train_on(options.data, options))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        print(train_on(Path(folder), options))


def read_options(description, epochs, parser):
    """Reads the command line."""
    parser.description = (description or "").partition("\n")[0]
    directory = Path("train_log") / Path(parser.prog).stem
    parser.add_argument("--data", type=Path, help="the folder of the files; images are drawn without it")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"the last epoch; {epochs} if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0 if not given")
    parser.add_argument("--log-dir", type=Path, default=directory, help=f"{directory} if not given")
    parser.add_argument("--workers", type=int, default=2, help="processes that augment; 2 if not given")
    return parser.parse_args()


def train(model, flow, options, callbacks, **settings):
    """Trains on all GPUs, or on the CPU; returns the monitors, which have the statistics.

    Args:
        model: the model to train.
        flow: batches for each device.
        options: the command line.
        callbacks: evaluation and schedules.
        settings: further arguments of `TrainConfig`.
    """
    config = TrainConfig(
        model=model,
        dataflow=flow,
        callbacks=[ModelSaver(keep_last=1), *callbacks],
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
        **settings,
    )
    trainer = SyncMultiGPUTrainer(config)
    trainer.train()
    return trainer.monitors
