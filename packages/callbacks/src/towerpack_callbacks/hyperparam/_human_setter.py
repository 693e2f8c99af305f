"""Sets a hyper-parameter from a text file that the user may edit during training."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, final

from ._hyper_param import HyperParam
from ._hyper_param_setter import HyperParamSetter

__all__ = ["HumanHyperParamSetter"]

_log = logging.getLogger("towerpack_callbacks")


@final
class HumanHyperParamSetter(HyperParamSetter):
    """Sets a hyper-parameter to its value in a text file, read at each trigger.

    A line of the file is `name: value`, with the name of `HyperParam.readable_name`; if a name occurs several
    times, the last line counts. Without the file or such a line, the parameter is unchanged. An unreadable
    line is logged, and training continues.

    Args:
        param: the parameter, or the name of a scalar variable.
        file_name: the file; in the log directory unless the path is absolute.

    Raises:
        ValueError: (at set-up) the path is relative, and the run has no log directory.
    """

    def __init__(self, param: HyperParam | str, file_name: str | Path = "hyper.txt") -> None:
        super().__init__(param)
        self._file_name = Path(file_name)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        if self.log_dir is None and not self._file_name.is_absolute():
            raise ValueError(
                f"{self} reads {str(self._file_name)!r} in the log directory, but the run has no log "
                "directory. Give log_dir= to the run, or an absolute path here."
            )
        self._path = self._file_name if self.log_dir is None else self.log_dir / self._file_name

    def _value_at_start(self, restored: Any) -> Any:
        written = self._value_now()
        return restored if written is None else written

    def _value_now(self) -> float | None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("%s cannot read %s: %s", self, self._path, error)
            return None
        value = None
        for number, line in enumerate(lines, 1):
            name, colon, text = line.rpartition(":")
            if colon and name.strip() == self.param.readable_name:
                try:
                    value = float(text)
                except ValueError:
                    _log.warning(
                        "%s: line %d of %s, %r, has no number after its colon.",
                        self,
                        number,
                        self._path,
                        line,
                    )
        return value
