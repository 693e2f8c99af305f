"""What `python -m towerpack_callbacks` does; each command in a file of its own."""

from ._checkpoint import add_checkpoint
from ._errors import CommandError
from ._plot import add_plot

__all__ = ["CommandError", "add_checkpoint", "add_plot"]
