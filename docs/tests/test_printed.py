"""Printed text is compared line by line, and only the options of a block allow differences."""

from __future__ import annotations

import pytest
from printed import Allowed, difference


def compared(written, printed, options=""):
    return difference(written, printed, "page.md", 1, Allowed.read(frozenset(options.split())))


@pytest.mark.parametrize(
    "written, printed, options",
    [
        ("a\nb\n", "a\nb", ""),
        ("(2, 10)  \n", "(2, 10)\n\n", ""),
        ("took 3 s", "took 12 ms", "vary=time"),
        ("took 0:12", "took 1:02:03", "vary=time"),
        ("420 steps/s", "1.21e+03 steps/s", "vary=number"),
        ("9,120 steps/s", "8,434 steps/s", "vary=number"),
        ("size   90 kB  2 files", "size 1000 kB  2 files", "vary=size"),
        ("files in /tmp/x:", "files in /tmp/a-b/c_1:", "vary=path"),
        ("x  (train.py:10)", "x  (/a/b.py:7)", "vary=path"),
        ("2026-01-31 10:00:00  a", "2030-12-01 23:59:59  a", "vary=date"),
        ("cost 0.30", "cost 0.3312", "within=0.05"),
        ("cost -0.001", "cost 0", "within=1e-3"),
        ("step 7: a 0.9  b 0.5", "step 7: a 0.8  b 0.5", "within=0.11,0"),
        ("a\nd", "a\nb\nc\nd", "excerpt"),
        ("a\nb", "a\nb", "excerpt"),
        ("a\nb 1.0", "x\na\nb 2\nb 1.05\nc", "excerpt within=0.1"),
        ("a(b) [c] $d", "a(b) [c] $d", ""),
        ("a", "epoch 1: the data is the bottleneck: steps waited\na", ""),
        ("epoch 1: the model is the bottleneck: steps waited\na", "a", ""),
        ("a", "WARNING:tensorflow:From x: y is deprecated\nInstructions for updating:\nUse z\na", ""),
        ("", "\n", ""),
    ],
)
def test_agrees(written, printed, options):
    assert compared(written, printed, options) is None


@pytest.mark.parametrize(
    "written, printed, options",
    [
        ("a", "b", ""),
        ("a", "a\nb", ""),
        ("a\nb", "a", ""),
        ("a", "", ""),
        ("", "a", ""),
        ("1.5", "1a5", ""),
        ("took 3 s", "took 4 s", ""),
        ("took 3 s", "took long", "vary=time"),
        ("took 3 s", "took 12", "vary=time"),
        ("20 steps/s", "many steps/s", "vary=number"),
        ("20 steps/s", "20 steps a second", "vary=number"),
        ("cost 0.30", "cost 0.36", "within=0.05"),
        ("cost 0.30", "cost nan", "within=0.05"),
        ("step 7: cost 0.30", "step 8: cost 0.30", "within=5"),
        ("a 0.9  b 0.5", "a 0.8  b 0.6", "within=0.11,0"),
        ("a\nd", "a\nb\nc", "excerpt"),
        ("a\nb", "b\na", "excerpt"),
        ("a\nb 1.0", "a\nb 2\nb 3", "excerpt within=0.1"),
        ("a ± 1", "a 1", "within=1"),
        ("took <number> s", "took long", "vary=number"),
        ("a\n…\nc", "a\nb\nc", "excerpt"),
    ],
)
def test_does_not_agree(written, printed, options):
    assert compared(written, printed, options)


@pytest.mark.parametrize("option", ["vary=colour", "tolerance=3", "exact", "within=a"])
def test_unknown_options(option):
    with pytest.raises(ValueError):
        Allowed.read(frozenset(["output", option]))


def test_a_difference_shows_page_line_and_the_lines_that_differ_alone():
    allowed = Allowed.read(frozenset(["excerpt", "within=0.1"]))
    written = "one\ncost 0.3\nthree\nlast"
    shown = difference(written, "one\ncost 0.35\n3\n4\nlast", "docs/page.md", 10, allowed)
    assert shown.splitlines()[0] == "docs/page.md:12 is not what the block prints"
    changed = [line for line in shown.splitlines()[3:] if line[0] in "+-"]
    assert changed == ["-three", "+3", "+4"]
    assert " cost 0.35" in shown.splitlines()


def test_the_place_of_a_difference_at_the_end():
    assert difference("a\nb", "a\nb\nc", "page.md", 1).startswith("page.md:3 ")
    assert difference("a\nb", "a", "page.md", 1).startswith("page.md:2 ")
    assert difference("", "a", "page.md", 7).startswith("page.md:7 ")
