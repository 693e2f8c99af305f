"""Tests for `byte_code.py`."""

import os

from release.byte_code import link_byte_code

PACKAGE = "lib/python3.11/site-packages/tensorflow"


def environment(top, name, source):
    package = top / name / PACKAGE
    package.mkdir(parents=True)
    os.link(source, package / "__init__.py")
    return package


def test_byte_code_of_the_same_sources_is_linked(tmp_path):
    source = tmp_path / "source.py"
    source.touch()
    first, second = (environment(tmp_path / "nox", name, source) for name in ("first", "second"))
    code = first / "__pycache__" / "__init__.cpython-311.pyc"
    code.parent.mkdir()
    code.write_bytes(b"code")
    for _ in range(2):
        link_byte_code(tmp_path / "nox" / "second")
        assert (second / "__pycache__" / code.name).samefile(code)


def test_byte_code_of_other_sources_is_not(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).touch()
        package = environment(tmp_path / "nox", name, tmp_path / name)
    (tmp_path / "nox" / "first" / PACKAGE / "__pycache__").mkdir()
    (tmp_path / "nox" / "first" / PACKAGE / "__pycache__" / "__init__.cpython-311.pyc").touch()
    link_byte_code(tmp_path / "nox" / "second")
    assert not (package / "__pycache__").exists()
