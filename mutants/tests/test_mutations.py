"""Mutants are what runs otherwise, each once."""

from __future__ import annotations

from mutants.mutations import mutants_of

SOURCE = '''from __future__ import annotations

from typing import final


@final
class Box:
    """Holds 3."""

    limit: int | None = None

    @property
    def half(self) -> int | float:
        return self.limit // 2


def fits(size: int | None, most: int = 7) -> bool:
    return size < most
'''


def test_each_change_of_what_runs_is_made_once() -> None:
    mutants = list(mutants_of(SOURCE))
    lines = [mutant.line for mutant in mutants]
    assert len(set(lines)) == len(lines)
    assert {"return self.limit / 2", "return self.limit // 3", "return size <= most"} <= set(lines)
    assert {mutant.original for mutant in mutants} == {
        "@property",
        "return self.limit // 2",
        "def fits(size: int | None, most: int = 7) -> bool:",
        "return size < most",
    }


def test_what_only_readers_see_is_left_alone() -> None:
    assert not list(mutants_of('@final\nclass A:\n    """3."""\n\n    x: int | None\n'))
