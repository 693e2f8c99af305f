"""Pickles of definitions keep file names with any version of cloudpickle."""

import os
import pickle
import subprocess
import sys

import numpy as np

from towerpack_dataflow import DataFromList
from towerpack_dataflow.runtime.transport import (
    WorkerPayload,
    load_payload,
    pack_error,
    unpack_error,
)
from towerpack_dataflow.storage import dump_by_value

SCRIPT = """
from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner


def fails_here(datapoint):
    raise KeyError("no such word")


with MultiProcessRunner(MapData(DataFromList([[1]]), fails_here), 1) as flow:
    list(flow)
"""


def test_code_keeps_its_file_and_its_line():
    def make(number):
        return lambda: number + (lambda: 1)()

    again = pickle.loads(dump_by_value(make))
    assert again(1)() == 2
    for one, other in [(make, again), (make(1), again(1))]:
        assert other.__code__ == one.__code__
        assert other.__code__.co_filename == __file__


def test_buffers_are_sent_out_of_band():
    buffers = []
    array = np.arange(1000)
    pickled = dump_by_value((array, lambda: 5), buffers.append)
    assert len(pickled) < array.nbytes and len(buffers) == 1
    again, five = pickle.loads(pickled, buffers=buffers)
    np.testing.assert_array_equal(again, array)
    assert five() == 5


def test_the_traceback_from_a_worker_shows_the_line_of_the_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert f'File "{script}", line 6, in fails_here\n    raise KeyError("no such word")' in ended.stderr


def test_members_of_a_packed_list_keep_the_file_of_their_class():
    class Record:
        def __init__(self, number):
            self.record = bytes([number % 256]) * 5000

        def read(self):
            return self.record[0]

    payload = WorkerPayload(DataFromList([Record(number) for number in range(2000)], shuffle=False), {})
    flow = load_payload(os.dup(payload.descriptor))
    payload.close()
    assert type(flow._lst).__name__ == "PackedList"
    assert next(iter(flow)).read.__code__.co_filename == __file__


def test_an_error_of_a_local_class_keeps_its_file():
    class StrangeError(ValueError):
        def told(self):
            return self.args

    error = unpack_error(pack_error(StrangeError(3)))
    assert error.told.__code__.co_filename == __file__ and error.args == (3,)
