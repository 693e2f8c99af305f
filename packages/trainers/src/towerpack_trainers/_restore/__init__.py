"""Which value goes to which variable: names, differences, and where values come from."""

from ._differences import VARIABLE_DIFFERENCES, Differences, check_allowed
from ._names import NameMap, Rename
from ._sources import read_values

__all__ = ["VARIABLE_DIFFERENCES", "Differences", "NameMap", "Rename", "check_allowed", "read_values"]
