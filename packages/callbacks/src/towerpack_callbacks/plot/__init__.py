"""Curves of one run or several, from what `JSONWriter` left of them.

`python -m towerpack_callbacks plot LOGDIR…` is how people use it.
"""

from ._html_page import write_html
from ._png_chart import write_png
from ._read_runs import Curve, Run, RunError, read_runs, select_keys

__all__ = ["Curve", "Run", "RunError", "read_runs", "select_keys", "write_html", "write_png"]
