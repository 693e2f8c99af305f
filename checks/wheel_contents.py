"""Checks that a built wheel holds the files that its users need.

`python checks/wheel_contents.py WHEEL FILE` prints one line for each finding and exits with status 1 if there
is one.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator

from source_files import report


def findings(wheel: str, file: str) -> Iterator[str]:
    """Yields files that are missing from a wheel, or that do not belong in it."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        top = {name.split("/")[0] for name in names}
        (info,) = (name for name in top if name.endswith(".dist-info"))
        if top != {f"towerpack_{wheel}", info}:
            yield f"{wheel}: unexpected top-level entries {sorted(top)}"
        for needed in (f"towerpack_{wheel}/py.typed", f"{info}/licenses/LICENSE"):
            if needed not in names:
                yield f"{wheel}: {needed} is missing"
        if f"# towerpack-{wheel}" not in archive.read(f"{info}/METADATA").decode():
            yield f"{wheel}: the README is missing from the metadata"


if __name__ == "__main__":
    report(findings(*sys.argv[1:]))
