"""Makes releases.

`python -m release.make dataflow 0.2.0` checks the tree, writes the changelog and the public names, builds and
checks the files, lists what they consist of, and then alone commits and tags, here: nothing is pushed. The
files are in `dist/release`. `--dry` does the same for all wheels (or those that it is given) in their present
versions, without a commit or a tag.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import api, artifacts
from .changelog import write_section
from .record import record, second_tree
from .surface import read_surfaces
from .tree import in_the_way, released_versions, version_of
from .wheels import ROOT, WHEELS

__all__ = ["main", "make_files"]

# Builds the files of some wheels, each with a version, from a tree, in a folder.
Maker = Callable[[dict[str, str], Path, Path], list[Path]]


def make_files(versions: dict[str, str], place: Path, out: Path) -> list[Path]:
    """Builds, checks and lists; returns the files of these wheels."""
    artifacts.build(place, out)
    files = []
    for wheel, version in versions.items():
        files += [*artifacts.check(wheel, version, out), artifacts.write_sbom(wheel, version, place, out)]
    return files


def main(arguments: list[str], root: Path = ROOT, make: Maker = make_files) -> int:
    """Makes a release, or tries all; returns the exit status."""
    dry = arguments[:1] == ["--dry"]
    versions = _asked(arguments[1:] if dry else arguments, root, dry)
    if not versions:
        print(f"usage: release (WHEEL VERSION | --dry [WHEEL ...]), received {arguments}", file=sys.stderr)
        return 2
    hindrances = [
        f"{wheel}: {each}"
        for wheel, version in versions.items()
        for each in in_the_way(wheel, version, root, dry=dry)
    ]
    if hindrances or api.main([], root):
        print("\n".join(hindrances), file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="release-") as scratch,
        second_tree(Path(scratch, "tree"), root) as place,
    ):
        _write(versions, place)
        files = make(versions, place, Path(scratch, "files"))
        _keep(files, root / "dist" / "release")
        if not dry:
            ((wheel, version),) = versions.items()
            tag = record(wheel, version, place, root)
            print(f"{tag} is made, here alone. To publish it: git push origin main {tag}")
    return 0


def _asked(words: list[str], root: Path, dry: bool) -> dict[str, str]:
    """The wheels with their versions; empty if the words do not name them."""
    if not dry:
        return {words[0]: words[1]} if len(words) == 2 else {}
    return {} if set(words) - set(WHEELS) else {wheel: version_of(wheel, root) for wheel in words or WHEELS}


def _write(versions: dict[str, str], place: Path) -> None:
    """Writes changelogs and public names; those of a release that there is already stay as they are."""
    surfaces = read_surfaces(place)
    for wheel, version in versions.items():
        if version not in map(str, released_versions(wheel, place)):
            write_section(wheel, version, place)
            api.write(wheel, surfaces[wheel], place)


def _keep(files: list[Path], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        print(f"{shutil.copy(file, folder)}: {file.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        print(f"{error}\n{error.stderr or ''}", file=sys.stderr)
        sys.exit(1)
