"""Tests for `editors.py`."""

from pathlib import Path

from editors import together, write_blocks


def test_the_blocks_of_a_page_keep_their_lines(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\na = 1\n```\n\ntext\n\n```python continuation\nb = a\n```\n"
        "```python file=flow.py\nc = 1\n```\n```python not-run: it hangs\nd = 1\n```\n```python\ne = 1\n```\n"
        "```python continuation\nf = e\n```\n"
    )
    written = write_blocks(page, tmp_path / "docs" / "page")
    found = {path.name: path.read_text().splitlines() for path in written}
    assert {name: [line for line in lines if line] for name, lines in found.items()} == {
        "docs_page_3.py": ["a = 1", "b = a"],
        "flow.py": ["c = 1"],
        "docs_page_18.py": ["e = 1", "f = e"],
    }
    lines = page.read_text().splitlines()
    for script in found.values():
        assert all(lines[number] == line for number, line in enumerate(script) if line)


def test_modules_of_one_name_are_checked_apart():
    a, b, c = Path("a"), Path("b"), Path("c")
    scripts = {a: [a / "train.py"], b: [b / "train.py"], c: [c / "pkg" / "train.py"]}
    assert [list(group) for group in together(scripts)] == [[a, c], [b]]
