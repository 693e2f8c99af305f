"""Links TensorFlow's byte code into an environment of nox: `python release/byte_code.py ENVIRONMENT`."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["link_byte_code"]


def link_byte_code(environment: Path) -> None:
    """Links TensorFlow's byte code from an earlier session, since each process would compile it for 16 s.

    Both environments have links to the same sources in uv's cache, so the byte code is of the same release.
    """
    for package in ("tensorflow", "keras"):
        for here in environment.glob(f"lib/python*/site-packages/{package}"):
            same = (here / "__init__.py").samefile
            others = environment.parent.glob(f"*/{here.relative_to(environment)}")
            compiled = next(
                (each for each in others if each != here and (each / "__pycache__").exists()), here
            )
            for code in compiled.rglob("*.pyc") if same(compiled / "__init__.py") else ():
                target = here / code.relative_to(compiled)
                target.parent.mkdir(exist_ok=True)
                if not target.exists():
                    target.hardlink_to(code)


if __name__ == "__main__":
    link_byte_code(Path(sys.argv[1]))
