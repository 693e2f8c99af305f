"""`MemoryState`: saves and restores a replay memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from .._errors import StateError
from ._episode_links import EpisodeLinks
from ._memory_layout import STARTED, MemoryLayout
from ._sampling import Sampling
from ._saved_files import (
    check_segments,
    check_target,
    read_arrays,
    read_contents,
    restore_segments,
    save_segments,
    write_arrays,
    write_contents,
)
from ._segments import Segments

__all__ = ["MemoryState"]

_FORMAT = 1


@final
class MemoryState:
    """Saves and restores the parts of a memory: a dict for JSON, and files in a directory."""

    def __init__(
        self, layout: MemoryLayout, links: EpisodeLinks, segments: Segments, sampling: Sampling
    ) -> None:
        """Stores the parts of the memory."""
        self._layout, self._links, self._segments, self._sampling = layout, links, segments, sampling

    def dump(self) -> dict[str, Any]:
        """Returns everything except the transitions."""
        return {
            "version": _FORMAT,
            "memory": self._layout.fingerprint(),
            "rows": [self._links.tail, self._links.head],
            "open": self._links.open_rows(),
            "sampling": self._sampling.state_dict(),
        }

    def save(self, directory: Path) -> None:
        """Writes transitions and priorities to a directory."""
        check_target(directory)
        rows, length = (self._links.tail, self._links.head), self._layout.segment_rows
        segments = save_segments(self._segments, rows, length, directory)
        arrays = write_arrays(self._sampling.arrays(self._slots(rows)), directory)
        contents = {"version": _FORMAT, "of": self._layout.fingerprint(), "rows": list(rows)}
        write_contents({**contents, "segments": segments, "arrays": arrays}, directory)

    def load(self, state: Mapping[str, Any], directory: Path | None) -> None:
        """Restores both; changes nothing unless all of it is valid."""
        self._check(state)
        rows = int(state["rows"][0]), int(state["rows"][1])
        if directory is None:
            if rows[1]:
                raise StateError(
                    f"the transitions of this state, rows {rows[0]} to {rows[1]}, are in files; received no "
                    "directory. Pass the one filled by link_into()"
                )
            self._restore(state, rows, {}, {}, Path())
            return
        contents = read_contents(directory)
        if contents.get("version") != _FORMAT or contents.get("rows") != list(rows):
            raise StateError(
                f"the state has rows {list(rows)}, but {directory} has rows {contents.get('rows')}; save "
                "both at the same time: nothing may be added between state_dict() and link_into()"
            )
        if contents.get("of", self._layout.fingerprint()) != self._layout.fingerprint():
            raise StateError(
                f"{directory} belongs to another memory, {contents['of']}; this one is "
                f"{self._layout.fingerprint()}"
            )
        check_segments(contents["segments"], self._segments, directory)
        arrays = read_arrays(contents["arrays"], directory)
        self._restore(state, rows, contents["segments"], arrays, directory)

    def _restore(
        self,
        state: Mapping[str, Any],
        rows: tuple[int, int],
        segments: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        directory: Path,
    ) -> None:
        self._sampling.load_state_dict(state["sampling"])
        self._segments.clear()
        restore_segments(self._segments, segments, self._layout.segment_rows, directory)
        slots = self._slots(rows)
        tags = self._segments.columns["tag"][slots] if len(slots) else np.zeros(0, np.int32)
        self._links.restore(rows, tags // 8, (tags & STARTED) > 0, state["open"])
        self._sampling.restore(slots, arrays)

    def _check(self, state: Mapping[str, Any]) -> None:
        wanted = {"version", "memory", "rows", "open", "sampling"}
        if not isinstance(state, Mapping) or not wanted <= state.keys() or state["version"] != _FORMAT:
            raise StateError(
                f"a state is the result of state_dict() of a memory, in format {_FORMAT}; received "
                f"{str(state)[:200]}"
            )
        ours, theirs = self._layout.fingerprint(), state["memory"]
        different = {name: (theirs.get(name), ours[name]) for name in ours if theirs.get(name) != ours[name]}
        if different:
            texts = [f"{name} was {old} and is {new}" for name, (old, new) in different.items()]
            raise StateError(f"the state belongs to another memory: {'; '.join(texts)}", different)
        kind = state["sampling"].get("kind")
        if kind != type(self._sampling).__name__:
            raise StateError(f"the state has {kind}, but this memory has {type(self._sampling).__name__}")

    def _slots(self, rows: tuple[int, int]) -> np.ndarray:
        return np.arange(*rows) % self._layout.slots
