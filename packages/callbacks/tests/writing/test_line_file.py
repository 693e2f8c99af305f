"""Files of lines after full disks and killed processes."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from towerpack_callbacks.writing import LineFile, cut_lines_after


def test_a_full_disk_leaves_whole_lines_and_kept_lines_follow_later(tmp_path):
    path = tmp_path / "stats.jsonl"
    file = LineFile(path, str)
    file.append(["a" * 60])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # a write past it is cut short, then fails
    try:
        with pytest.raises(OSError, match=r"File too large: .*stats\.jsonl"):
            file.append(["b" * 60])
        open_files = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match=r"File too large: .*stats\.jsonl"):
            file.close()
        assert len(os.listdir("/proc/self/fd")) < open_files
        assert path.read_text() == "a" * 60 + "\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append(["c"])
    file.close()
    assert path.read_text().split("\n") == ["a" * 60, "b" * 60, "c", ""]


@pytest.mark.slow
def test_a_killed_writer_leaves_lines_in_order_and_at_most_the_last_one_torn(tmp_path):
    path = tmp_path / "stats.jsonl"
    program = f"""
import itertools, json
from {LineFile.__module__} import LineFile
file = LineFile({str(path)!r}, str)
for step in itertools.count(1):
    file.append([json.dumps({{"global_step": step, "padding": "x" * 5000}})])
    if step == 200:
        print(flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    whole = path.read_bytes().split(b"\n")[:-1]
    steps = [json.loads(line)["global_step"] for line in whole]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 200
    cut_lines_after(path, lambda line: line.startswith(b'{"global_step": 150,'))
    assert [json.loads(line)["global_step"] for line in path.read_text().splitlines()] == list(range(1, 151))
