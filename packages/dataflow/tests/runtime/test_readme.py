import ast
import re
from pathlib import Path

import towerpack_dataflow.runtime

ROOT = Path(towerpack_dataflow.runtime.__file__).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def files_in_reading_order():
    """The paths that the table names."""
    folder = ROOT
    for line in README.splitlines():
        if heading := re.match(r"\| \*\*`(\w+)/`\*\*", line):
            folder = ROOT if heading[1] == ROOT.name else ROOT / heading[1]
        elif line.startswith("| `_"):
            yield from (folder / f"{name}.py" for name in re.findall(r"`(_\w+)`", line.split("|")[1]))


def imported(path):
    """The files of the runtime that one of them imports, lazily or for types included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = path.parents[node.level - 1]
            found = above.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if found.is_relative_to(ROOT) and found.is_file():
                yield found


def test_the_table_names_every_file_once():
    named = list(files_in_reading_order())
    assert sorted(named) == sorted(path for path in ROOT.rglob("_*.py") if path.name != "__init__.py")


def test_each_file_imports_only_those_before_it():
    seen = set()
    for path in files_in_reading_order():
        assert set(imported(path)) <= seen, path.name
        seen.add(path)
    assert seen
