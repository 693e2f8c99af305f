"""Which value goes to which variable: names, differences, and where values come from."""

from ._differences import Differences, check_allowed
from ._names import NameMap, Rename
from ._sources import read_values

__all__ = ["Differences", "NameMap", "Rename", "check_allowed", "read_values"]
