"""The check of English finds planted sentences, and leaves plain ones alone."""

from __future__ import annotations

from pathlib import Path

import prose
import pytest
from source_files import Module


@pytest.mark.parametrize(
    "sentence",
    [
        "Is told what the memory holds.",
        "Raises whatever the function raises.",
        "Each worker has a seed of its own.",
        "The training goes on.",
        "The pass starts anew.",
        "The file lies beside it, lest it be lost.",
        "The record is none of this file.",
        "A reader shall close it.",
    ],
)
def test_a_planted_sentence_is_found(sentence: str) -> None:
    assert prose.foreign(sentence) is not None


@pytest.mark.parametrize(
    "sentence",
    ["Sets the capacity.", "Which format is it?", "The training continues.", "Its own file is closed."],
)
def test_a_plain_sentence_is_not(sentence: str) -> None:
    assert prose.foreign(sentence) is None


def test_a_share_above_the_bound_names_each_place() -> None:
    plain, planted = ("a.py:1", "Sets the capacity."), ("b.py:2", "The training goes on.")
    assert not list(prose.excessive("docstrings", [plain] * 99 + [planted]))
    found = list(prose.excessive("docstrings", [plain] * 9 + [planted]))
    assert found[0].startswith("b.py:2") and found[-1].startswith("10.0 % of 10 docstrings")


def test_each_kind_of_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("source_files.ROOT", tmp_path)
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    source, page = tmp_path / "a.py", tmp_path / "a.md"
    source.write_text('"""Reads."""\n_log.info("it went on")\nraise ValueError(f"{1} is none")\n')
    page.write_text("# Title\n\nIt goes on from there to here.\n\n```\nit goes on and on and on\n```\n")
    module = Module("dataflow", source)
    assert [text for _, text in prose.docstrings(module)] == ["Reads."]
    assert {text for _, text in prose.messages(module)} == {"it went on", " is none"}
    assert [text for _, text in prose.paragraphs(page)] == ["It goes on from there to here."]
