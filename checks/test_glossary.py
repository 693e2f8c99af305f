"""The check of names finds planted words that the glossary has replaced."""

from __future__ import annotations

from pathlib import Path

import glossary
import pytest

PAGE = """# Glossary

| `tower` | not in the table of replaced words | |

## Replaced words

| replaced | now | names of the last release |
| --- | --- | --- |
| `hand_out` | `ShardServer` | |
| `parcel`, `packet` | `Payload` | `ParcelError` |
"""


@pytest.fixture
def words(tmp_path: Path) -> tuple[dict[str, str], set[str]]:
    page = tmp_path / "glossary.md"
    page.write_text(PAGE)
    return glossary.replaced_words(page)


def test_the_table_is_read(words: tuple[dict[str, str], set[str]]) -> None:
    now = {"hand_out": "`ShardServer`", "parcel": "`Payload`", "packet": "`Payload`"}
    assert words == (now, {"ParcelError"})


@pytest.mark.parametrize(
    "name", ["_hand_out.py", "HandOutService", "hand-out.fix.md", "test_parcel.py", "PARCEL", "PacketError"]
)
def test_a_planted_word_is_found(name: str, words: tuple[dict[str, str], set[str]]) -> None:
    (line,) = glossary.outdated([("the place", name)], *words)
    assert line.startswith(f"the place: {name!r} has ") and "replaced by `" in line


@pytest.mark.parametrize("name", ["ParcelError", "_out_of_hand.py", "parcelled", "ShardServer", "tower"])
def test_other_names_are_not(name: str, words: tuple[dict[str, str], set[str]]) -> None:
    assert not list(glossary.outdated([("the place", name)], *words))


def test_files_and_public_names_are_read() -> None:
    assert ("checks/test_glossary.py", "test_glossary.py") in set(glossary.file_names())
    assert {("towerpack_dataflow.BatchData", name) for name in ("BatchData", "batch_size")} <= set(
        glossary.api_names()
    )


def test_the_page_has_words_and_aliases() -> None:
    words, released = glossary.replaced_words()
    assert words["headspace"].startswith("`InputOverhead`") and "Headspace" in released
