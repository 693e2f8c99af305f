"""The publishing workflow matches the tags of releases, and pins its actions."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from pathlib import Path

import pytest
from release.tree import tag_of
from release.wheels import ROOT, WHEELS

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_every_action_is_pinned_by_its_commit() -> None:
    used = re.findall(r"uses: (.+)", WORKFLOW)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_the_tag_of_every_wheel_starts_it() -> None:
    (pattern,) = re.findall(r'tags: \["(.+)"\]', WORKFLOW)
    assert all(fnmatch.fnmatchcase(tag_of(wheel, "0.2.0"), pattern) for wheel in WHEELS)


def test_each_package_has_an_environment_and_no_secret_is_named() -> None:
    assert "environment: publish-${{ needs.build.outputs.package }}" in WORKFLOW
    assert "secrets." not in WORKFLOW
    assert WORKFLOW.count("id-token: write") == 1


@pytest.mark.parametrize("wheel", WHEELS)
def test_its_commands_find_wheel_and_version_in_the_tag(wheel: str, tmp_path: Path) -> None:
    (found,) = re.findall(r"id: tag\n +run: (.+)", WORKFLOW)
    (release,) = re.findall(r'run: python -m nox -s "release\(check\)" -- (.+)', WORKFLOW)
    (listed,) = re.findall(r"run: (ls .+)", WORKFLOW)
    (tmp_path / "dist" / "release").mkdir(parents=True)
    (tmp_path / "dist" / "release" / f"towerpack_{wheel}-0.2.0.tar.gz").touch()

    def run(command: str, tag: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag, "GITHUB_OUTPUT": "output", **variables}
        script = ["bash", "-ec", command]
        return subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    tag = tag_of(wheel, "0.2.0")
    assert run(found, tag).returncode == 0
    name, _, package = (tmp_path / "output").read_text(encoding="utf-8").strip().partition("=")
    assert (name, package) == ("package", f"towerpack-{wheel}")
    assert run(f"echo {release}", tag, PACKAGE=package).stdout.strip() == wheel
    assert run(listed, tag, PACKAGE=package).returncode == 0
    assert run(listed, tag_of(wheel, "0.2.1"), PACKAGE=package).returncode != 0
