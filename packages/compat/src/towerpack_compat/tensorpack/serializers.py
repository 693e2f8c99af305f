"""`tensorpack.dataflow.serialize`: files that Tensorpack reads too, of any objects that pickle takes.

Reading such a file may run code: read none of strangers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import towerpack_dataflow as flows
from towerpack_dataflow.storage import create_path

from .utils.functions import dumps

__all__ = ["LMDBSerializer", "NumpySerializer", "TFRecordSerializer"]


def _datapoints(df: Any) -> Iterator[Any]:
    df.reset_state()
    return iter(df)


class LMDBSerializer:
    """Writes one pass of a flow to an LMDB file of pickles, and reads it."""

    load = staticmethod(partial(flows.LMDBSerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str, write_frequency: int = 5000) -> None:
        """Writes a flow to a file, or into an empty folder, in one transaction."""
        import lmdb

        path, keys = f"{path}/data.mdb" if os.path.isdir(path) else path, []
        assert not os.path.isfile(path), f"LMDB file {path} exists!"
        with create_path(path) as new:  # which holds a lock
            database = lmdb.open(new, subdir=False, map_size=2**41, meminit=False, lock=False)
            with database, database.begin(write=True) as transaction:
                for number, datapoint in enumerate(_datapoints(df)):
                    keys.append(b"%08d" % number)
                    transaction.put(keys[-1], dumps(datapoint))
                transaction.put(b"__keys__", dumps(keys))


class TFRecordSerializer:
    """Writes one pass of a flow to a TFRecord file of pickles, and reads it."""

    load = staticmethod(partial(flows.TFRecordSerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str) -> None:
        """Writes a flow."""
        flows.write_tfrecord(map(dumps, _datapoints(df)), path)


class NumpySerializer:
    """Writes one pass of a flow to an `.npz` file of one array, and reads it."""

    load = staticmethod(partial(flows.NumpySerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str) -> None:
        """Writes a flow."""
        np.savez_compressed(path, buffer=np.asarray(list(_datapoints(df)), dtype=object))
