"""What is printed is compared line by line, with declared patterns and tolerances alone."""

from __future__ import annotations

import pytest
from printed import agrees, difference


@pytest.mark.parametrize(
    "written, printed",
    [
        ("a\nb\n", "a\nb"),
        ("(2, 10)  \n", "(2, 10)\n\n"),
        ("took <time>", "took 12 ms"),
        ("took <time>", "took 1:02:03"),
        ("<rate> steps/s", "1.21e+03 steps/s"),
        ("<rate> steps/s", "8,434 steps/s"),
        ("files of this run: <path>", "files of this run: /tmp/a-b/c_1"),
        ("cost 0.30±0.05", "cost 0.3312"),
        ("cost -1e-3 ± 1e-3", "cost 0"),
        ("file … is damaged", "file a b c is damaged"),
        ("a\n…\nd", "a\nb\nc\nd"),
        ("a\n…\nb", "a\nb"),
        ("a\n…\nb 1±0.1\n…", "a\nb 2\nb 1.05\nc"),
        ("a(b) [c] $d", "a(b) [c] $d"),
        ("a", "epoch 1: the data is the bottleneck: steps waited\na"),
        ("epoch 1: the model is the bottleneck: …\na", "a"),
        ("a", "WARNING:tensorflow:From x: y is deprecated\nInstructions for updating:\nUse z\na"),
        ("", "\n"),
    ],
)
def test_agrees(written, printed):
    assert agrees(written, printed)
    assert difference(written, printed, "page.md", 1) is None


@pytest.mark.parametrize(
    "written, printed",
    [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("a", ""),
        ("", "a"),
        ("1.5", "1a5"),
        ("took <time>", "took long"),
        ("took <time>", "took 12"),
        ("<rate> steps/s", "many steps/s"),
        ("cost 0.30±0.05", "cost 0.36"),
        ("cost 0.30±0.05", "cost nan"),
        ("a\n…\nd", "a\nb\nc"),
        ("a\n…\nb 1±0.1", "a\nb 2\nb 3"),
        ("a … c", "a\nc"),
    ],
)
def test_does_not_agree(written, printed):
    assert not agrees(written, printed)


def test_a_difference_shows_page_line_and_the_lines_that_differ_alone():
    written = "one\ncost 0.3±0.1\nthree\n…\nlast"
    shown = difference(written, "one\ncost 0.35\n3\n4\nlast", "docs/page.md", 10)
    assert shown.splitlines()[0] == "docs/page.md:12 is not what the block prints"
    changed = [line for line in shown.splitlines()[3:] if line[0] in "+-"]
    assert changed == ["-three", "+3"]
    assert " cost 0.35" in shown.splitlines()


def test_the_place_of_a_difference_at_the_end():
    assert difference("a\nb", "a\nb\nc", "page.md", 1).startswith("page.md:2 ")
    assert difference("a\nb", "a", "page.md", 1).startswith("page.md:2 ")
    assert difference("", "a", "page.md", 7).startswith("page.md:7 ")
