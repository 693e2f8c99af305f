"""Run programs that were written for Tensorpack. Nothing changes in a process that does not call `install`."""

from ._errors import CompatError, InstallError, NoCounterpartError
from ._install import install

__all__ = ["CompatError", "InstallError", "NoCounterpartError", "install"]
