"""Checks that a wheel can be released from the tree as it is.

What is a matter of the moment is apart from what the files say: uncommitted changes, the branch, the releases
of other wheels.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from .changelog import fragments, has_entry, misnamed
from .wheels import ROOT, WHEELS

__all__ = ["git", "in_the_way", "released_versions", "tag_of", "version_of"]

_SIBLING = re.compile(r"towerpack-(\w+)")


def in_the_way(wheel: str, version: str, root: Path = ROOT, *, dry: bool = False) -> Iterator[str]:
    """Yields one sentence for each thing that keeps a wheel from being released.

    Args:
        wheel: the wheel's short name.
        version: the version to release.
        root: the working tree of a git repository.
        dry: leave out what is a matter of the moment. A version may then be released already.
    """
    if wheel not in WHEELS:
        yield f"there is no wheel {wheel!r}; there are {', '.join(WHEELS)}"
        return
    if not dry:
        yield from _moment(wheel, root)
    if not dry or tag_of(wheel, version) not in git(root, "tag", "--list").split():
        yield from _version(wheel, version, root)
        if not has_entry(wheel, version, root):
            yield (
                f"packages/{wheel}/changes has no fragment, and CHANGELOG.md no section"
                f" '## {version} (unreleased)': say what is new for users"
            )
    yield from misnamed(wheel, root)
    yield from _pins(wheel, root)


def tag_of(wheel: str, version: str) -> str:
    """Returns the name of the tag of a release."""
    return f"towerpack-{wheel}-v{version}"


def version_of(wheel: str, root: Path = ROOT) -> str:
    """Returns the version in a wheel's `pyproject.toml`."""
    return str(_project(wheel, root)["version"])


def released_versions(wheel: str, root: Path = ROOT) -> list[Version]:
    """Returns the versions that have a tag, the oldest first."""
    tags = git(root, "tag", "--list", tag_of(wheel, "*")).split()
    return sorted(Version(tag.removeprefix(tag_of(wheel, ""))) for tag in tags)


def git(root: Path, *arguments: str) -> str:
    """Runs a git command, and returns its output."""
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _moment(wheel: str, root: Path) -> Iterator[str]:
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        yield f"{len(changed)} files are not committed, such as {changed[0][3:]!r}: commit or remove them"
    branch = git(root, "rev-parse", "--abbrev-ref", "HEAD")
    if branch != "main":
        yield f"the branch is {branch!r}; releases are made on 'main'"
    if not _project(wheel, root).get("urls"):
        yield f"packages/{wheel}/pyproject.toml has no [project.urls]: say where source and issues are"
    for sibling in sorted(_siblings(wheel, root)):
        required, now = _minor(version_of(sibling, root)), released_versions(sibling, root)
        if not any(_minor(str(version)) == required for version in now):
            wanted = ".".join(map(str, required))
            yield f"it needs towerpack-{sibling} {wanted}, of which there is no release yet"


def _version(wheel: str, version: str, root: Path) -> Iterator[str]:
    try:
        new = Version(version)
    except InvalidVersion:
        yield f"{version!r} is no version; expected one such as 0.2.0"
        return
    if str(new) != version or len(new.release) != 3:
        yield f"the version is written {version!r}; expected three numbers, such as 0.2.0, 0.2.1 or 0.3.0rc1"
    if version_of(wheel, root) != version:
        yield f"packages/{wheel}/pyproject.toml has version {version_of(wheel, root)}, not {version}"
    older, kinds = released_versions(wheel, root), fragments(wheel, root).values()
    if older and new <= older[-1]:
        yield f"{version} does not come after {older[-1]}, which is released"
    elif older and _minor(version) == _minor(str(older[-1])) and "breaking" in kinds:
        yield f"a fragment is of type 'breaking': {version} must be a new minor version after {older[-1]}"


def _pins(wheel: str, root: Path) -> Iterator[str]:
    """The wheels require each other by the minor version that they have now."""
    for owner in WHEELS:
        for text in _requirements(owner, root):
            sibling = _SIBLING.fullmatch(Requirement(text).name)
            if sibling is None or wheel not in {owner, sibling[1]}:
                continue
            major, minor = _minor(version_of(sibling[1], root))
            right = f">={major}.{minor},<{major}.{minor + 1}"
            if {str(each) for each in Requirement(text).specifier} != set(right.split(",")):
                yield f"packages/{owner}/pyproject.toml requires {text!r}; expected {right} for {sibling[1]}"


def _siblings(wheel: str, root: Path) -> set[str]:
    names = (_SIBLING.fullmatch(Requirement(text).name) for text in _requirements(wheel, root))
    return {match[1] for match in names if match is not None} - {wheel}


def _requirements(wheel: str, root: Path) -> list[str]:
    project = _project(wheel, root)
    extras = project.get("optional-dependencies", {}).values()
    return [*project.get("dependencies", []), *(text for extra in extras for text in extra)]


def _project(wheel: str, root: Path) -> dict[str, Any]:
    text = (root / "packages" / wheel / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def _minor(version: str) -> tuple[int, int]:
    parsed = Version(version)
    return parsed.major, parsed.minor
