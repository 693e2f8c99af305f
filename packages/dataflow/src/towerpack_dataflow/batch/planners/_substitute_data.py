"""`SubstituteData`: replaces datapoints that fail."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ErrorLimitError
from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._trace import Origin
from ...operators._proxy_flow import ProxyDataFlow
from ...storage._atomic_file import read_at
from ._planned_flow import one, require_addressable

__all__ = ["SubstituteData"]

_log = logging.getLogger("towerpack_dataflow")

_ATTEMPTS = 10


@final
class SubstituteData(ProxyDataFlow):
    """Replaces a datapoint that raises an error by another datapoint of the flow; addressable.

    The length is unchanged, and the substitute is a function of seed, epoch and index: the same with any
    number of workers, and after a resume. Put a runner over it, so that it runs in the workers. Replaced
    datapoints are logged, and recorded in a file for all processes and runs: the list of datapoints to
    repair.

    `trace()` makes the datapoint to find out whether it is replaced.

    Args:
        ds: an addressable flow.
        quarantine: path of the file, with one line of JSON per replaced datapoint. Without a file, each
            process counts separately.
        max_errors: number of datapoints that may be replaced, over all passes, before `ErrorLimitError`.

    Raises:
        ArgumentError: `max_errors` is not positive.
        ErrorLimitError: raised by a pass: more datapoints fail than the limit allows, or ten substitutes
            fail.
        NotAddressableError: `ds` is a stream.

    Example:
        >>> from towerpack_dataflow import MapData
        >>> flow = SubstituteData(MapData([[4], [0], [2]], lambda dp: [8 // dp[0]]))
        >>> len(list(flow)), list(flow)[0], flow.quarantined[0]["index"]
        (3, [2], 1)
    """

    addressable = True
    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(
        self, ds: Any, quarantine: str | os.PathLike[str] | None = None, max_errors: int = 100
    ) -> None:
        """Stores the arguments."""
        super().__init__(ds)
        require_addressable(self.ds, "SubstituteData")
        self._file = None if quarantine is None else os.path.abspath(quarantine)
        self._max_errors = arguments.count("max_errors", max_errors)
        self._seen: dict[tuple[int, int], dict[str, Any]] = {}
        self._known_bytes = 0  # of the file

    @property
    def quarantined(self) -> list[dict[str, Any]]:
        """The replaced datapoints: `epoch`, `index`, `substitute` (an index) and `error` of each."""
        self._read_file()
        return list(self._seen.values())

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the same index, or its substitute."""
        _, source = self._made(epoch, index)
        return [Origin(self.ds, source, self._below(epoch))]

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self._made(epoch, index)[0]

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        index, size = start, len(self.ds)
        below = self.ds._datapoints(self._below(epoch), index)
        while index < size:
            try:
                datapoint = next(below)
            except StopIteration:
                return
            except Exception as error:
                datapoint, _ = self._substituted(epoch, index, error)
                below = self.ds._datapoints(self._below(epoch), index + 1)  # a failed iterator has ended
            yield datapoint
            index += 1

    def _made(self, epoch: Epoch, index: int) -> tuple[Any, int]:
        try:
            return one(self.ds, self._below(epoch), index, self._name()), index
        except Exception as error:
            return self._substituted(epoch, index, error)

    def _substituted(self, epoch: Epoch, index: int, error: Exception) -> tuple[Any, int]:
        rng = np.random.default_rng([epoch.seed, int(epoch), epoch.outer_epoch, index])
        last = error
        for other in rng.integers(len(self.ds), size=_ATTEMPTS).tolist():
            try:
                datapoint = one(self.ds, self._below(epoch), other, self._name())
            except Exception as second:
                last = second
                continue
            self._note(epoch, index, other, error)
            return datapoint, other
        raise ErrorLimitError(
            f"datapoint {index} of epoch {int(epoch)} failed ({error!r}), and so did {_ATTEMPTS} substitutes"
        ) from last

    def _note(self, epoch: Epoch, index: int, other: int, error: Exception) -> None:
        key = (int(epoch), index)
        if key not in self._seen:
            entry = {"epoch": key[0], "index": index, "substitute": other, "error": repr(error)}
            self._seen[key] = entry
            _log.warning("datapoint %d of epoch %d was replaced by %d: %r", index, key[0], other, error)
            self._append(entry)
        self._read_file()
        if len(self._seen) > self._max_errors:
            where = "" if self._file is None else f" ({self._file} lists them)"
            raise ErrorLimitError(
                f"more than max_errors={self._max_errors} datapoints failed{where}; the last was "
                f"datapoint {index} of epoch {key[0]}: {error!r}"
            ) from error

    def _read_file(self) -> None:
        """Reads new entries of the file, written by any process."""
        if self._file is None or not os.path.exists(self._file):
            return
        with open(self._file, "rb") as file:
            if os.fstat(file.fileno()).st_size < self._known_bytes:
                self._known_bytes = 0  # another process has started a new one
            file.seek(self._known_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is incomplete
                self._known_bytes += len(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            self._seen[int(entry["epoch"]), int(entry["index"])] = entry
        except (KeyError, TypeError, ValueError):
            _log.warning(
                "%s: a line is not a record of a datapoint, and is ignored; a killed process may have "
                "written a part of it: %.100r",
                self._file,
                line,
            )

    def _append(self, entry: dict[str, Any]) -> None:
        if self._file is None:
            return
        descriptor = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            torn = size and read_at(descriptor, 1, size - 1) != b"\n"  # by a process that was killed
            # In one write: processes share the file.
            os.write(descriptor, b"\n" * bool(torn) + json.dumps(entry).encode() + b"\n")
        finally:
            os.close(descriptor)

    def _name(self) -> str:
        return "SubstituteData"
