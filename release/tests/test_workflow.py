"""The workflow that publishes fits the tags that releases make, and pins what it runs."""

from __future__ import annotations

import fnmatch
import re

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
