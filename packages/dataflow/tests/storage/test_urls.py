"""Names of files as URLs: quoted characters, and invalid parts of a URL of a local file."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError
from towerpack_dataflow.storage import as_url, create_file, is_local, open_url, printable


@given(
    st.binary(min_size=1, max_size=30).filter(
        lambda name: not set(name) & set(b"\0/") and name not in (b".", b"..")
    )
)
def test_the_url_of_any_path_is_that_path(name):
    path = Path("/folder", os.fsdecode(name))
    assert as_url("url", path.as_uri()) == as_url("url", path) == str(path)


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "ü", "100%", "a%20b", "a+b", "~x", "a;b", "a\nb"])
def test_a_file_is_read_and_written_by_its_url(tmp_path, name):
    path = tmp_path / name
    for other in ("a", "b", "a b"):
        (tmp_path / other).write_bytes(b"of another file")
    with create_file(path.as_uri()) as file:
        file.write(name.encode())
    assert path.read_bytes() == name.encode()
    with open_url(path.as_uri().replace("file://", "file://localhost")) as file:
        assert file.read() == name.encode()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file:///x/b#1", "has a fragment.*%23"),
        ("file:///x/b?1", "has a query.*%3F"),
        ("file://elsewhere/x", "names the host 'elsewhere'"),
        ("file://x", "names the host 'x'"),
        ("file:///x%2Fy", "%2F"),
        ("file:///x%00y", "zero byte"),
        ("/x\0y", "zero byte"),
        ("FILE:///x#1", "fragment"),
    ],
)
def test_a_url_that_names_no_local_file_is_refused(url, text):
    with pytest.raises(ArgumentError, match=text):
        as_url("url", url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host/a%20b?key=secret#secret", "https://host/a%20b"),
        ("https://host?key=secret/x", "https://host/"),
        ("ftp://me:secret@host/a", "ftp://host/a"),
        ("s3://bucket/a?b#c@d", "s3://bucket/a?b#c@d"),
        ("s3://key:secret@bucket/a", "s3://bucket/a"),
        ("memory://a b", "memory://a b"),
    ],
)
def test_a_name_for_people_has_no_credentials(url, shown):
    assert not is_local(url) and printable(url) == shown
