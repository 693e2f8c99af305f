"""Sets a hyper-parameter from a text file, which a human may edit while training."""

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

    A line of the file is `name: value`, the name as `HyperParam.readable_name` has it; the last line of a
    name counts. Without the file, or without such a line, the parameter is left alone. A line that cannot be
    read is logged, and training goes on.

    Args:
        param: the parameter, or the name of a scalar variable.
        file_name: the file; in the log directory unless the path is absolute.

    Raises:
        ValueError: (at set-up) there is no log directory to find the file in.
    """

    def __init__(self, param: HyperParam | str, file_name: str | Path = "hyper.txt") -> None:
        super().__init__(param)
        self._file_name = Path(file_name)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        if self.log_dir is None and not self._file_name.is_absolute():
            raise ValueError(
                f"{self} reads {str(self._file_name)!r} in the log directory, but there is none. "
                "Give log_dir= to the run, or an absolute path here."
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
