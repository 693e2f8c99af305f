"""The commands of `python -m towerpack_dataflow` and `towerpack`, and the loader of their flows."""

from ._installed_commands import run_installed

__all__ = ["run_installed"]
