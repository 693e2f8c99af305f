"""Lines on a terminal and elsewhere, and the table and the text of a notebook; docs/tests runs a real one."""

import io
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks.loop import Report
from towerpack_callbacks.monitors._console import NotebookTable, print_line

TITLE = "epoch 3/5, step 135"
LINE = f"{TITLE}: cost\xa00.68664  validation_accuracy\xa00.91831"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed(text, title="", *, terminal=True, **variables):
    """Returns how a line looks on a terminal of 40 columns, or in a file."""
    stream = Terminal() if terminal else io.StringIO()
    with pytest.MonkeyPatch.context() as context:
        for name in ("NO_COLOR", "TERM"):
            context.delenv(name, raising=False)
        for name, value in {"COLUMNS": "40", **variables}.items():
            context.setenv(name, value)
        context.setattr(sys, "stderr", stream)
        print_line(text, title)
    return stream.getvalue()


def test_a_terminal_wraps_between_statistics_and_colours_the_title():
    expected = "\033[36mepoch 3/5, step 135\033[0m: cost 0.68664\n  validation_accuracy 0.91831\n"
    assert printed(LINE, TITLE) == expected


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminals_without_colours(variables):
    assert "\033" not in printed(LINE, TITLE, **variables)


def test_a_file_has_the_line_as_it_is():
    assert printed(LINE, TITLE, terminal=False) == LINE.replace("\xa0", " ") + "\n"


@given(words=st.lists(st.text("abc-/", min_size=1, max_size=50), min_size=1))
def test_no_word_is_lost_or_broken(words):
    assert printed(" ".join(words)).split() == words


def test_lines_of_a_text_stay_apart():
    assert printed("a b\n  c d\n\ne") == "a b\n  c d\n\ne\n"


class Shown:
    """What a notebook shows in one place."""

    def __init__(self):
        self.states = []

    def display(self, data, **options):
        assert options == {"raw": True, "display_id": True}
        self.states.append(data)
        return SimpleNamespace(update=lambda data, raw: self.states.append(data))


def test_a_table_grows_in_one_place(monkeypatch):
    shown = Shown()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.display))
    table = NotebookTable()
    table.add({"epoch": "1/2", "cost": "0.5"})
    table.add({"epoch": "2/2", "cost": "0.25", "<b>": "1"})
    head = "<table><thead><tr><th>epoch</th><th>cost</th><th>&lt;b&gt;</th></tr></thead>"
    rows = "<tr><td>1/2</td><td>0.5</td><td></td></tr><tr><td>2/2</td><td>0.25</td><td>1</td></tr>"
    assert shown.states[1]["text/html"] == f"{head}<tbody>{rows}</tbody></table>"
    assert shown.states[1]["text/plain"] == "epoch 1/2  cost 0.5\nepoch 2/2  cost 0.25  <b> 1"
    for epoch in range(200):
        table.add({"epoch": str(epoch)})
    assert shown.states[-1]["text/html"].count("<tr>") == 101


def test_a_report_is_text_that_a_notebook_shows_in_lines():
    report = Report("a <b>\n  c")
    assert report == "a <b>\n  c" and report._repr_html_() == "<pre>a &lt;b&gt;\n  c</pre>"
