"""Blocks of pages are run in their order, and a page that is wrong fails."""

from __future__ import annotations

import textwrap

import pytest
from blocks import PAGES
from sybil.example import SybilFailure


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs all blocks of a page in an empty folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(text):
        page = tmp_path / "page.md"
        page.write_text(textwrap.dedent(text).replace("'''", "```"), encoding="utf-8")
        examples = list(PAGES.parse(page))
        for example in examples:
            example.evaluate()
        return examples

    return run


def test_a_page_that_is_right(run, capsys):
    page = """
    # Right

    '''python
    import sys
    x = 1
    print("out", x)
    print("err", file=sys.stderr)
    '''

    '''text output vary=number
    out 7
    err
    '''

    '''{.python .continuation}
    print(x + 1)
    '''
    '''{.text .output}
    2
    '''

    '''python file=mine/part.py
    print("from a file")
    '''

    '''bash
    python -m mine.part
    (cd mine && ls *.py) >&2
    '''

    '''text output
    from a file
    part.py
    '''

    '''bash not-run: it takes hours
    false
    '''

    '''
    of no language
    '''

    ````markdown
    '''python
    1 / 0
    '''
    ````
    """
    assert [example.parsed.language for example in run(page)] == [
        "python",
        "python",
        "python",
        "bash",
        "bash",
    ]
    assert "out 1\nerr\n2\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "block, message",
    [
        ("'''python\nprint(1)\n'''\n\n'''text output\n2\n'''", r"page.md:6 is not .*\n(.*\n)*-2\n\+1"),
        ("'''python\nprint(1)\n'''\n\n'''text output\n'''", r"\+1"),
        ("'''bash\necho 1\n'''\n\n'''text output\n2\n'''", r"-2\n\+1"),
        ("'''bash\necho before; false; echo after\n'''", r"status 1:\nbefore\n$"),
        ("'''python notest\n1 / 0\n'''", "unknown after ```python: notest"),
        ("'''bash continuation\ntrue\n'''", "unknown after ```bash: continuation"),
        ("'''python not-run\n1 / 0\n'''", "not-run: REASON"),
        ("'''python\nprint(1)\n'''\n\nThen:\n\n'''text output\n1\n'''", "right after the block"),
        ("'''text output\n1\n'''", "right after the block"),
        ("'''python\nprint(1.5)\n'''\n\n'''text output within=0.1\n1.7\n'''", r"-1.7\n\+1.5"),
    ],
)
def test_a_page_that_is_wrong(run, block, message):
    with pytest.raises(SybilFailure, match=message):
        run(block)


def test_a_block_has_names_of_its_own(run):
    with pytest.raises(NameError):
        run("'''python\nx = 1\n'''\n\n'''python\nprint(x)\n'''")


def test_an_error_is_at_its_line_of_the_page(run):
    with pytest.raises(ZeroDivisionError) as caught:
        run("Text.\n\n'''python\nx = 1\nx / 0\n'''")
    last = caught.traceback[-1]
    assert (last.path.name, last.lineno + 1) == ("page.md", 5)
