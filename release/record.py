"""Makes a release part of the history: a commit on the branch, and a tag. Nothing is ever pushed.

A release is prepared in a second working tree, so that the first one stays as it is until all has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .tree import git, tag_of
from .wheels import ROOT

__all__ = ["record", "second_tree"]


@contextmanager
def second_tree(place: Path, root: Path = ROOT) -> Iterator[Path]:
    """Makes another working tree of the commit that is checked out, and removes it in the end."""
    git(root, "worktree", "add", "--quiet", "--detach", str(place), "HEAD")
    try:
        yield place
    finally:
        git(root, "worktree", "remove", "--force", str(place))


def record(wheel: str, version: str, place: Path, root: Path = ROOT) -> str:
    """Commits the changes of the second tree, moves the branch to the commit, and tags it.

    Args:
        wheel: the wheel's short name.
        version: the version of the release.
        place: the second working tree.
        root: the first one, on the branch, at the commit that the second one was made of.

    Returns:
        The name of the tag.

    Raises:
        CalledProcessError: the branch has moved since, or git refuses for another reason.
    """
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", f"Release towerpack-{wheel} {version}")
    commit = git(place, "rev-parse", "HEAD")
    git(root, "merge", "--quiet", "--ff-only", commit)
    tag = tag_of(wheel, version)
    git(root, "tag", "--annotate", "--message", f"towerpack-{wheel} {version}", tag, commit)
    return tag
