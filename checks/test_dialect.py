"""The check of examples finds a planted public class without one."""

from __future__ import annotations

from pathlib import Path

import dialect
import pytest
import source_files

PUBLIC = {"towerpack_layers.Planted", "towerpack_layers.testing.PlantedToo", "towerpack_layers.PlantedError"}


def found_in(text: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    monkeypatch.setattr(source_files, "ROOT", folder)
    path = folder / "_planted.py"
    path.write_text(text)
    return list(dialect.without_examples(source_files.Module("layers", path), PUBLIC))


@pytest.mark.parametrize("name", ["Planted", "PlantedToo"])
@pytest.mark.parametrize(
    "docstring", ["", '"""Plants."""', '"""Plants.\n\n    Args:\n        x: one.\n    """']
)
def test_a_planted_class_without_an_example_is_found(
    name: str, docstring: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (line,) = found_in(f"class {name}:\n    {docstring}\n    x = 1\n", monkeypatch, tmp_path)
    assert line == f"_planted.py:1: the public class {name} has no example in its docstring"


@pytest.mark.parametrize("example", [">>> Planted()", "```python\n    Planted()\n    ```"])
def test_an_example_is_accepted(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = f'class Planted:\n    """Plants.\n\n    Example:\n    {example}\n    """\n'
    assert found_in(text, monkeypatch, tmp_path) == []


@pytest.mark.parametrize("name", ["_Planted", "Other", "PlantedError", "Planted(LookupError)"])
def test_private_classes_and_errors_need_none(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert found_in(f'class {name}:\n    """Plants."""\n', monkeypatch, tmp_path) == []


def test_the_public_classes_are_known() -> None:
    public = dialect.glossary.api_classes()
    assert {"towerpack_layers.TowerContext", "towerpack_trainers.rl.PPOTrainer"} <= public
    assert len(public) > 300
