"""The tutorial on data alone, with its blocks for PyTorch and JAX, in an environment that has both."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "02-data-alone.md"
PYTHON = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_all_blocks_run_in_their_order():
    blocks = PYTHON.findall(PAGE.read_text(encoding="utf-8"))
    assert sum("not-run" in words for words, _ in blocks) == 2
    names = {"__name__": "page"}
    for _, source in blocks:
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), names)
    assert names["weights"].shape == (64, 10)
    assert float(names["cost"](names["weights"], *next(iter(names["make_flow"]())))) < 1.0
