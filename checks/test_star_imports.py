"""`from towerpack_… import *` brings no module: names such as `predict` or `testing` are a script's own."""

from __future__ import annotations

import ast

import pytest
from source_files import ROOT, WHEELS


@pytest.mark.parametrize("wheel", WHEELS)
def test_no_module_is_among_the_names_of_a_wheel(wheel: str) -> None:
    folder = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
    # Of names that are imported when they are used, the stub says which there are.
    stub = folder / "__init__.pyi"
    face = stub if stub.exists() else folder / "__init__.py"
    tree = ast.parse(face.read_text(encoding="utf-8"))
    exported: set[str] = set()
    modules = {path.stem for path in folder.iterdir()}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is None:
            modules |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported |= set(ast.literal_eval(node.value))
    assert exported
    assert not exported & modules
