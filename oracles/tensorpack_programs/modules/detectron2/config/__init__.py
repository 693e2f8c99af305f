"""Detectron2's configuration, as far as convert_d2 reads it; its files are JSON here."""

from __future__ import annotations

import json
import types

__all__ = ["get_cfg"]


def get_cfg() -> _Configuration:
    """Returns a configuration without values."""
    return _Configuration()


class _Configuration:
    MODEL: types.SimpleNamespace

    def merge_from_file(self, path: str) -> None:
        """Takes the values of a file."""
        with open(path) as file:
            self.MODEL = json.load(file, object_hook=lambda values: types.SimpleNamespace(**values))
