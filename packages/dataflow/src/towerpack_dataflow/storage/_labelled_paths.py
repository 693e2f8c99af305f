"""`LabelledPaths`: the paths of many files and their labels, in a few arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, final, overload

import numpy as np

__all__ = ["LabelledPaths"]


@final
class LabelledPaths(Sequence[Any]):
    """Lists of a path and a label, made when they are read.

    A million such lists take as much time as listing the files, and a quarter of a gigabyte. Arrays are sent
    to workers without a pickle, and exist once for all of them.

    Args:
        start: the beginning of all paths.
        folders: of each folder its path after `start`, the names of its files, and their label.

    Example:
        >>> paths = LabelledPaths("data/", [("ants", ["a.jpg", "b.jpg"], 0), ("bees", ["c.jpg"], 1)])
        >>> len(paths), paths[1], paths[2:]
        (3, ['data/ants/b.jpg', 0], [['data/bees/c.jpg', 1]])
    """

    def __init__(self, start: str, folders: Iterable[tuple[str, Sequence[str], int]]) -> None:
        """Joins the names."""
        found = [(folder, names, label) for folder, names, label in folders if names]
        self._folders = [(f"{start}{folder}/", label) for folder, _, label in found]
        self._ends_of_folders = list(accumulate(len(names) for _, names, _ in found))
        # No name contains a zero.
        text = "".join("\0".join(names) + "\0" for _, names, _ in found)
        self._text = np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
        self._ends = np.flatnonzero(self._text == 0)
        self._views = self._text.data, self._ends.data  # read faster than arrays

    def __len__(self) -> int:
        """Returns the number of files."""
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> list[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Any]]: ...
    def __getitem__(self, index: int | slice) -> list[Any]:
        """Returns the path and the label of one file, or a list of some."""
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        if not 0 <= index < len(self._ends):
            index = range(len(self))[index]
        text, ends = self._views
        name = str(text[ends[index - 1] + 1 if index else 0 : ends[index]], "utf-8", "surrogateescape")
        folder, label = self._folders[bisect_right(self._ends_of_folders, index)]
        return [folder + name, label]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the views."""
        return {name: value for name, value in vars(self).items() if name != "_views"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes the views again."""
        vars(self).update(state)
        self._views = self._text.data, self._ends.data
