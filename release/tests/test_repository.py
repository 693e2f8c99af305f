from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from release.repository import main, write_address
from release.wheels import ROOT, WHEELS

FILES = (
    "CITATION.cff",
    ".github/ISSUE_TEMPLATE/config.yml",
    *(f"packages/{wheel}/pyproject.toml" for wheel in WHEELS),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of this repository that name its address."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def texts(tree: Path) -> list[str]:
    return [(tree / file).read_text(encoding="utf-8") for file in FILES]


def test_all_files_name_the_address(tree: Path) -> None:
    before = {
        wheel: tomllib.loads((ROOT / f"packages/{wheel}/pyproject.toml").read_text()) for wheel in WHEELS
    }
    write_address("https://github.com/someone/towerpack.git", tree)
    for wheel, table in before.items():
        table["project"].pop("urls", None)
        after = tomllib.loads((tree / f"packages/{wheel}/pyproject.toml").read_text())
        assert after["project"].pop("urls") == {
            "Source": "https://github.com/someone/towerpack",
            "Issues": "https://github.com/someone/towerpack/issues",
            "Changelog": f"https://github.com/someone/towerpack/blob/main/packages/{wheel}/CHANGELOG.md",
        }
        assert after == table
    cited, links, *_ = texts(tree)
    assert cited.endswith("repository-code: https://github.com/someone/towerpack\n")
    assert "url: https://github.com/someone/towerpack/security/advisories/new\n" in links


def test_another_address_replaces_it(tree: Path) -> None:
    write_address("https://github.com/another/towerpack", tree)
    once = texts(tree)
    write_address("https://example.org/someone/pack/", tree)
    assert not any("another" in text for text in texts(tree))
    write_address("https://github.com/another/towerpack", tree)
    assert texts(tree) == once


@pytest.mark.parametrize("arguments", [[], ["towerpack"], ["https://github.com"], ["a", "b"]])
def test_what_is_no_address_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("error: expected one address: ")
