"""Tensorpack's data library through compat and dataflow, in an environment without TensorFlow."""

import importlib.util
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
from tensorpack.dataflow import *
from tensorpack.utils import logger


class Squares(RNGDataFlow):
    def size(self):
        return 10

    def get_data(self):
        for number in range(10):
            yield [np.full(3, number, "uint8"), number * number]


flow = BatchData(PrefetchDataZMQ(MapDataComponent(Squares(), lambda x: x / 2.0), 2), 4, remainder=True)
flow.reset_state()
images, squares = zip(*flow.get_data())
assert flow.size() == 3 and [len(each) for each in images] == [4, 4, 2]
assert images[0].dtype == "float64" and squares[0].dtype == "int32"
assert sorted(np.concatenate(squares)) == [number * number for number in range(10)]
LMDBSerializer.save(Squares(), sys.argv[1])
again = LMDBSerializer.load(sys.argv[1], shuffle=False)
again.reset_state()
assert [square for _, square in again] == [number * number for number in range(10)]
logger.info("all is read")
assert "tensorflow" not in sys.modules
"""


def run(*arguments, code=None):
    command = [sys.executable, *arguments] if code is None else [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True)


def test_there_is_no_tensorflow_here():
    assert importlib.util.find_spec("tensorflow") is None
    assert importlib.util.find_spec("towerpack_trainers") is None


@pytest.mark.slow
def test_a_program_of_flows_runs_unchanged(tmp_path):
    script = tmp_path / "flows.py"
    script.write_text(PROGRAM)
    done = run("-m", "towerpack_compat", "run", str(script), str(tmp_path / "squares.lmdb"))
    assert done.returncode == 0, done.stderr
    assert "all is read" in done.stdout


def test_names_that_need_tensorflow_ask_for_the_extra():
    install = "import towerpack_compat; towerpack_compat.install(report=False); "
    for use in ("from tensorpack import SimpleTrainer", "import tensorflow as tf"):
        done = run(code=install + use)
        assert done.returncode == 1
        assert 'pip install "towerpack-compat[full]"' in done.stderr
    done = run(code=install + "from tensorpack import *; print(BatchData.__name__, 'Conv2D' in dir())")
    assert done.stdout == "BatchData False\n", done.stderr
