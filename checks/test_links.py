"""Links that lead nowhere are found, and those of code are not looked at."""

from __future__ import annotations

import pytest
from links import anchors, broken, pages


@pytest.fixture
def page(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text(
        "# A `name`, and more: it's *here*\n\n## Twice\n\n## Twice\n\n```bash\n# no heading\n```\n"
        '<a id="by-hand"></a>\n\n(of-myst)=\n## Grüße & [links](x.md)\n'
    )
    (tmp_path / "code.py").write_text("")
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    return page


def test_names_of_headings(page):
    assert anchors(page.parent / "docs" / "other.md") == {
        "a-name-and-more-its-here",
        "twice",
        "twice-1",
        "by-hand",
        "of-myst",
        "grüße--links",
    }


@pytest.mark.parametrize(
    "text",
    [
        "[a](docs/other.md#twice-1) ![b](code.py) [c](#page) [d](docs)",
        "[a](https://nowhere.invalid/x) [b](mailto:a@b.c)",
        "`[a](missing.md)` and ``[b](`missing.md`)``",
        "```markdown\n[a](missing.md)\n```",
        "[a]\n\n[a]: docs/other.md",
        '[a](docs/other.md "title") [b](<code.py>)',
        "[a](code.py#L10)",
    ],
)
def test_links_that_lead_somewhere(page, text):
    page.write_text(f"# Page\n{text}\n")
    assert list(broken(page, page.parent)) == []


@pytest.mark.parametrize(
    "text, finding",
    [
        ("x\n[a](missing.md)", "page.md:3: there is no missing.md"),
        ("![a](missing.png)", "page.md:2: there is no missing.png"),
        ("[a](docs/other.md#no-heading)", "page.md:2: docs/other.md has no heading #no-heading"),
        ("[a](#elsewhere)", "page.md:2: page.md has no heading #elsewhere"),
        ("[a](../x.md)", "page.md:2: ../x.md leads out of the repository"),
        ("[a]: missing.md", "page.md:2: there is no missing.md"),
        ("```\ncode\n```\n[a](missing.md)", "page.md:5: there is no missing.md"),
    ],
)
def test_links_that_lead_nowhere(page, text, finding):
    anchors.cache_clear()
    page.write_text(f"# Page\n{text}\n")
    assert list(broken(page, page.parent)) == [finding]


def test_pages_of_environments_are_not_ours(page):
    for folder in (".nox", "dist", "docs/site"):
        (page.parent / folder).mkdir()
        (page.parent / folder / "x.md").write_text("")
    assert [path.name for path in pages(page.parent)] == ["other.md", "page.md"]
