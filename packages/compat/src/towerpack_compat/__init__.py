"""Run programs that were written for Tensorpack, in a process that calls `install`."""

from ._errors import CompatError, InstallError, MigrationError, NoCounterpartError
from ._install import install

__all__ = ["CompatError", "InstallError", "MigrationError", "NoCounterpartError", "install"]
