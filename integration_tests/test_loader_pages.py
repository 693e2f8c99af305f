"""The pages on the loaders: their scripts train, are killed and resume to the same cost."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs"
SCRIPT = re.compile(r"^```python file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = re.compile(r"^```python(?: not-run[^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_of(script, folder, killed_after=None):
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if killed_after is not None and line.startswith(killed_after):
                process.kill()
        assert process.wait() == (0 if killed_after is None else -9), "\n".join(lines)
    finally:
        process.kill()
        process.communicate()
    return lines


@pytest.mark.parametrize("page", ["pytorch-in-five-minutes.md", "jax-in-five-minutes.md"])
def test_a_killed_script_ends_with_the_same_cost(page, tmp_path):
    for name, source in SCRIPT.findall((PAGES / page).read_text(encoding="utf-8")):
        (tmp_path / name).write_text(source, encoding="utf-8")
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        whole.mkdir()
        killed.mkdir()
        last = lines_of(tmp_path / name, whole)[-1]
        assert re.fullmatch(r"cost on the test images: 0\.\d+", last)
        lines_of(tmp_path / name, killed, killed_after="saved after step 60")
        resumed = lines_of(tmp_path / name, killed)
        assert resumed[0] == "resumed after step 60"
        assert resumed[-1] == last


@pytest.mark.parametrize("page", ["pytorch-in-five-minutes.md", "jax-in-five-minutes.md"])
def test_other_blocks_run(page):
    blocks = OTHERS.findall((PAGES / page).read_text(encoding="utf-8"))
    assert blocks
    for source in blocks:
        exec(compile(source, page, "exec", dont_inherit=True), {"__name__": "page"})
