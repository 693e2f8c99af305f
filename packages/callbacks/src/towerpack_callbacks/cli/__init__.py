"""The commands of `python -m towerpack_callbacks`, one file for each."""

from ._checkpoint_commands import add_checkpoint
from ._command_line import CheckpointCommandError
from ._plot_command import add_plot
from ._train_command import add_train

__all__ = ["CheckpointCommandError", "add_checkpoint", "add_plot", "add_train"]
