from __future__ import annotations

from pathlib import Path

import pytest
from release.tree import git
from release.wheels import WHEELS

_NEEDS = {"inputsource": ["dataflow"], "trainers": ["layers", "callbacks"]}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of five wheels of version 0.2.0, of which nothing is released, on a clean `main`."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "someone@example.org")
    root = tmp_path / "repository"
    for wheel in WHEELS:
        folder = root / "packages" / wheel
        (folder / "changes").mkdir(parents=True)
        (folder / "changes" / "README.md").write_text("Fragments.\n")
        source = folder / "src" / f"towerpack_{wheel}"
        source.mkdir(parents=True)
        (source / "__init__.py").write_text("def use(x): ...\n")
        needs = [f"towerpack-{sibling}>=0.2,<0.3" for sibling in _NEEDS.get(wheel, [])]
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "towerpack-{wheel}"\nversion = "0.2.0"\n'
            f"dependencies = {['numpy>=1.26', *needs]}\n"
            '[project.urls]\nSource = "https://example.org/towerpack"\n'
        )
        (folder / "CHANGELOG.md").write_text(
            f"# Changelog of towerpack-{wheel}\n\n<!-- The next release goes here. -->\n\n"
            "## 0.2.0 (unreleased)\n\nFirst release.\n\n- A flow.\n"
        )
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin")
    return root
