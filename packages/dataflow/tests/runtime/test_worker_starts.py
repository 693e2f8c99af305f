"""New workers start in any environment of their parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentTypeError,
    DataFromArrays,
    DataFromList,
    MapData,
    MultiProcessRunner,
    WorkerDiedError,
    autotune,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

READ = """
from towerpack_dataflow import *
methods = METHODS
got = [list(MultiProcessRunner(DataFromList([[1], [2]], shuffle=False), 1, start_method=m)) for m in methods]
open(REPORT, "w").write(str(got == [[[1], [2]]] * len(methods)))
"""


def reported(code, tmp_path, methods=("spawn", "fork"), **options):
    report = tmp_path / "report"
    code = code.replace("METHODS", repr(methods)).replace("REPORT", repr(str(report)))
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options
    )
    return report.read_text() if report.exists() else ended.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams(closed, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        READ.replace("METHODS", "('spawn', 'fork')").replace("REPORT", repr(str(tmp_path / "report")))
    )
    redirections = " ".join(f"{number}>&-" for number in closed)
    command = f"exec {sys.executable} {script} {redirections}"
    subprocess.run(["sh", "-c", command], timeout=60, check=False)
    assert (tmp_path / "report").read_text() == "True"


def test_a_worker_imports_no_writers_of_files():
    def imported(_):
        return [[name for name in sys.modules if name.startswith("towerpack_dataflow.storage._")]]

    with MultiProcessRunner(MapData(DataFromList([0]), imported), 1) as flow:
        ((names,),) = flow
    assert "towerpack_dataflow.storage._shared_memory" in names
    assert "towerpack_dataflow.storage._atomic_file" not in names


def test_non_string_entries_in_the_search_path(tmp_path):
    code = "import sys, pathlib; sys.path[1:1] = [pathlib.Path('/nowhere'), 3, b'bytes', None]\n" + READ
    # Coverage tools in subprocesses fail with such a path.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    assert reported(code, tmp_path, env=unmeasured) == "True"


def test_relative_entries_of_the_search_path_after_a_change_of_directory(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lib" / "mine.py").write_text("def double(dp):\n    return [2 * dp[0]]\n")
    code = """
import os, sys
sys.path.insert(0, "lib")
import mine
from towerpack_dataflow import *
os.chdir("elsewhere")
got = list(MultiProcessRunner(MapData([[1], [2]], mine.double), 1))
open(REPORT, "w").write(str(got))
"""
    assert reported(code, tmp_path, cwd=tmp_path) == "[[2], [4]]"


def test_a_flow_of_many_arrays():
    arrays = [np.full(512, number) for number in range(30_000)]
    flow = MultiProcessRunner(MapData([[0], [29_999]], lambda dp: [arrays[dp[0]][0]]), 1)
    assert list(flow) == [[0], [29_999]]
    flow.close()


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_arrays_in_mapped_files_are_not_copied(mode, tmp_path):
    np.arange(2**20).tofile(tmp_path / "numbers")
    whole = np.memmap(tmp_path / "numbers", np.int64, mode, shape=(2**10, 2**10))
    part = whole[::-2, 3:]

    def see(dp):
        return [dp[0], Path("/proc/self/maps").read_text().count(str(tmp_path))]

    flow = MultiProcessRunner(MapData(DataFromArrays([part], shuffle=False), see), 1)
    rows = list(flow)
    assert np.array_equal(np.stack([row for row, _ in rows]), part) and all(count for _, count in rows)
    flow.close()


def test_arrays_in_mapped_files_that_cannot_be_mapped_again_are_copied(tmp_path):
    np.arange(2**20).tofile(tmp_path / "numbers")
    private = np.memmap(tmp_path / "numbers", np.int64, "c")
    private[0] = 7
    gone = np.memmap(tmp_path / "numbers", np.int64, "r")
    os.remove(tmp_path / "numbers")
    flow = MultiProcessRunner(MapData([[0], [-1]], lambda dp: [private[dp[0]], gone[dp[0]]]), 1)
    assert [list(map(int, dp)) for dp in flow] == [[7, 0], [2**20 - 1] * 2]
    flow.close()


def test_a_worker_that_other_code_has_waited_for():
    flow = MultiProcessRunner(
        MapData(DataFromList(list(range(9**6)), shuffle=False), lambda n: [n, os.getpid()]),
        1,
        start_method="fork",
        prefetch_bytes=1,
    )
    iterator = iter(flow)
    _, pid = next(iterator)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with pytest.raises(
        WorkerDiedError, match="with an unknown exit status: other code in this process waited"
    ):
        list(iterator)


def test_the_worker_that_cannot_start_is_named(tmp_path):
    code = """
import resource
from towerpack_dataflow import *
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
try:
    list(MultiProcessRunner(DataFromList([[1]]), 30))
except OSError as error:
    open(REPORT, "w").write(str(error))
"""
    text = reported(code, tmp_path)
    assert "cannot start worker " in text and "cannot start worker 0 " not in text and "of 30" in text


def test_only_flows_can_be_tuned():
    with pytest.raises(ArgumentTypeError, match=r"autotune takes a DataFlow.*received NoneType"):
        autotune(None)
