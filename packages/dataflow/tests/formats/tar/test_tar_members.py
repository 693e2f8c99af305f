"""Members of tar files of other programs: links, sparse files, several archives in a file, no samples."""

import io
import json
import logging
import os
import struct
import tarfile
import time
import zlib

import numpy as np
import pytest
from any_datapoints import few_examples, texts
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError, DataFlowError, FormatError, TarData, index_tar, write_tar


def tar(*members, end=True):
    """Returns a tar file of members: (name, bytes), (name, type, target) or a `TarInfo` with bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, *rest in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if len(rest) == 2:
                info.type, info.linkname = rest
                archive.addfile(info)
            else:
                info.size = info.size or len(rest[0])
                archive.addfile(info, io.BytesIO(rest[0]))
        size = archive.offset
    return stream.getvalue() if end else stream.getvalue()[:size]


@pytest.fixture
def read(tmp_path):
    """Reads samples without an index and with one, which must be the same."""

    def read(content):
        path = tmp_path / "data.tar"
        path.write_bytes(content)
        samples = list(TarData(path))
        assert index_tar(path) == len(samples)
        indexed = TarData(path)
        assert list(indexed) == samples == [indexed.datapoint(0, number) for number in range(len(samples))]
        os.unlink(f"{path}.index")
        return samples

    return read


HARD, SYM = tarfile.LNKTYPE, tarfile.SYMTYPE


def test_links_are_the_files_that_they_lead_to(read):
    samples = read(
        tar(
            ("blobs/7f", b"seven"),  # no sample by itself
            ("a.jpg", HARD, "blobs/7f"),
            ("a.cls", b"1"),
            ("b.jpg", HARD, "a.jpg"),  # a chain
            ("b.cls", SYM, "./a.cls"),
            ("sub/c.jpg", SYM, "../later.jpg"),
            ("sub/c.cls", SYM, "c.jpg"),
            ("sub/d.jpg", HARD, "later.jpg"),
            ("later.jpg", b"later"),
        )
    )
    assert samples == [
        {"__key__": "a", "jpg": b"seven", "cls": b"1"},
        {"__key__": "b", "jpg": b"seven", "cls": b"1"},
        {"__key__": "sub/c", "jpg": b"later", "cls": b"later"},
        {"__key__": "sub/d", "jpg": b"later"},
        {"__key__": "later", "jpg": b"later"},
    ]


def test_of_several_members_of_one_name_a_link_leads_to_that_which_tar_would_write(read):
    members = [("x/1", b"old"), ("a.jpg", HARD, "x/1"), ("b.jpg", SYM, "x/1"), ("x/1", b"new")]
    assert read(tar(*members)) == [{"__key__": "a", "jpg": b"old"}, {"__key__": "b", "jpg": b"new"}]


@pytest.mark.parametrize("kind", [HARD, SYM])
@pytest.mark.parametrize("target", ["no.jpg", "/etc/hostname", "../../etc/hostname", "a.jpg", "b.jpg", ""])
def test_a_link_to_no_member_is_refused(read, kind, target):
    with pytest.raises(
        FormatError, match=r"data\.tar, member 'a\.jpg', is a link to .*, which is not a file"
    ):
        read(tar(("a.jpg", kind, target), ("b.jpg", SYM, "a.jpg")))


def test_a_chain_of_many_links_is_followed(read):
    members = [("0.jpg", b"x"), *((f"{number}.jpg", SYM, f"{number - 1}.jpg") for number in range(1, 2000))]
    assert len(read(tar(*members))) == 2000


def test_members_without_bytes_or_sample_are_left_out_as_in_webdataset(read):
    members = [
        ("dir.d", tarfile.DIRTYPE, ""),
        ("a.jpg", b"1"),
        ("README", b"no dot"),
        ("dir.d/LICENSE", b"no dot in the last part"),
        ("__meta__", b"x"),
        ("__index__/a.json", b"x"),
        (".hidden", b"x"),
        ("link.d", SYM, "dir.d"),
        ("folder.d", SYM, "sub"),
        ("null.dev", tarfile.CHRTYPE, ""),
        ("disk.dev", tarfile.BLKTYPE, ""),
        ("pipe.x", tarfile.FIFOTYPE, ""),
        ("README link", SYM, "nowhere"),
        ("a.cls", b"2"),
        ("sub/a.", b"3"),
    ]
    assert read(tar(*members)) == [{"__key__": "a", "jpg": b"1", "cls": b"2"}, {"__key__": "sub/a", "": b"3"}]


def sparse(form):
    """Returns a sparse member as GNU tar writes it."""
    info = tarfile.TarInfo("a.bin")
    if form == "old":
        info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"%011o\0%011o\0" % (0, 512)
        header[483:495] = b"%011o\0" % 1024
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        return bytes(header) + bytes(512) + bytes(1024)
    info.pax_headers = {
        "0.0": {"GNU.sparse.size": "1024", "GNU.sparse.numblocks": "1", "GNU.sparse.offset": "0"}
        | {"GNU.sparse.numbytes": "512"},
        "0.1": {"GNU.sparse.size": "1024", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,512"},
        "1.0": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a.bin"}
        | {"GNU.sparse.realsize": "1024"},
    }[form]
    return tar((info, b"1\n0\n512\n".ljust(512, b"\0") + bytes(512)))


@pytest.mark.parametrize("form", ["old", "0.0", "0.1", "1.0"])
def test_a_sparse_file_is_refused_by_name(read, form):
    with pytest.raises(FormatError, match=r"data\.tar, member 'a\.bin', is a sparse file.*--sparse"):
        read(sparse(form))


def test_an_unknown_type_is_rejected_by_name(read):
    with pytest.raises(FormatError, match=r"data\.tar, member 'a\.bin', has the type b'Q'"):
        read(tar(("a.bin", b"Q", "")))


def test_archives_that_follow_each_other_are_read_in_their_order(read):
    one, two = (
        tar(("a.jpg", b"1"), ("b.jpg", b"2")),
        tar(("b.jpg", b"3"), ("b.cls", b"4"), ("l.jpg", SYM, "a.jpg")),
    )
    expected = [
        {"__key__": "a", "jpg": b"1"},
        {"__key__": "b", "jpg": b"2"},
        {"__key__": "b", "jpg": b"3", "cls": b"4"},  # a sample ends with its archive
        {"__key__": "l", "jpg": b"1"},
    ]
    assert read(one + two) == expected
    assert read(one + bytes(3 * 2**20) + two + bytes(512)) == expected
    assert read(one + tar() + two) == expected
    assert len(read(one * 5)) == 10


@pytest.mark.parametrize("rest", [b"x" * 512, b"\0" * 100 + b"x", b"x" * 5000])
def test_other_bytes_after_an_archive_are_rejected(read, rest):
    with pytest.raises(
        FormatError, match=r"data\.tar: the bytes after the last member, at byte \d+, are neither"
    ):
        read(tar(("a.jpg", b"1")) + rest)


def test_an_archive_without_an_end_mark_is_read_with_a_warning(read, caplog):
    with caplog.at_level(logging.WARNING):
        assert read(tar(("a.jpg", b"1"), end=False)) == [{"__key__": "a", "jpg": b"1"}]
    assert "data.tar has no end mark after its last member; it may have been truncated there" in caplog.text


def header_of(kind, size, content=b""):
    info = tarfile.TarInfo("x")
    info.type = kind
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = (
        b"\x80" + size.to_bytes(11, "big")
        if size >= 0
        else struct.pack(">i", -1) * 2 + struct.pack(">i", size)
    )
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content


@pytest.mark.parametrize(
    "content",
    [
        header_of(b"x", 2**60),
        header_of(b"L", 2**40, bytes(5000)),
        header_of(b"x", 2**19, b"1" * 2**19),
        header_of(b"x", 2**22, bytes(2**22)),
        header_of(b"x", 512, bytes(512)) * 4000,
        header_of(b"0", -512),
        header_of(b"x", -512),
        header_of(b"0", 2**70),
        tar(("a.jpg", b"1"), end=False) + header_of(b"7", -1536),
    ],
)
def test_headers_that_would_take_memory_or_time_are_refused(read, content):
    begin = time.process_time()
    with pytest.raises(FormatError, match=r"data\.tar"):
        read(content)
    assert time.process_time() - begin < 20


@pytest.mark.slow
def test_a_flipped_bit_of_the_index_is_an_error_or_changes_nothing(tmp_path):
    path = tmp_path / "data.tar"
    samples = [{"__key__": f"train/{number}", "jpg": b"x" * number, "cls": b"1"} for number in range(4)]
    write_tar(samples, path)
    index = path.with_name("data.tar.index")
    content = index.read_bytes()
    for place in range(0, len(content), 3):
        index.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            assert list(TarData(path)) == samples, f"byte {place}"
        except FormatError as error:
            assert "data.tar" in str(error)


def test_an_index_of_an_earlier_release_is_left_alone_with_a_warning(tmp_path, caplog):
    path = tmp_path / "data.tar"
    path.write_bytes(tar(("a.jpg", b"1"), ("b.jpg", SYM, "a.jpg")))
    stat = path.stat()
    head = {"format": "towerpack-tar-index", "version": 2, "size": stat.st_size}
    head["of"] = f"{stat.st_size}-{stat.st_mtime_ns}"
    places = np.array([[0, 512, 1, zlib.crc32(path.read_bytes()[:512])]])  # without the link
    with open(f"{path}.index", "wb") as file:
        text = [np.frombuffer(part, np.uint8) for part in (json.dumps(head).encode(), b"a.jpg")]
        np.savez(file, head=text[0], names=text[1], places=places)
    with caplog.at_level(logging.WARNING):
        assert len(TarData(path)) == 2
    assert "data.tar.index is outdated, or has another version" in caplog.text
    assert index_tar(path) == 2 and len(TarData(path)) == 2


def test_a_file_that_is_written_to_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "data.tar"
    write_tar([{"__key__": str(number), "x": b"1"} for number in range(5)], path)
    samples = iter(TarData(path))
    next(samples)
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))
    os.utime(path, ns=(0, 5))
    with pytest.raises(DataFlowError, match=r"data\.tar was written to while it was being read"):
        next(samples)


keys = (
    texts()
    | st.text("a./_\x00é\udc80", max_size=6)
    | st.sampled_from(["__a__", "a" * 300, "/a", "../a", "a/"])
)
contents = st.binary(max_size=5) | texts() | st.integers() | st.none()


@few_examples(50)
@given(
    samples=st.lists(st.dictionaries(keys | st.just("__key__"), contents, max_size=3), max_size=3), key=keys
)
def test_samples_are_restored_or_rejected(tmp_path_factory, samples, key):
    path = tmp_path_factory.getbasetemp() / "any.tar"
    path.write_bytes(b"before")
    samples = [{"__key__": f"{key}{number}", **sample} for number, sample in enumerate(samples)]
    try:
        write_tar(samples, path)
    except ArgumentError:
        assert path.read_bytes() == b"before"
        return
    expected = [
        {
            name: value.encode() if isinstance(value, str) and name != "__key__" else value
            for name, value in s.items()
        }
        for s in samples
    ]
    assert list(TarData(path)) == expected
    with tarfile.open(path) as archive:
        names = [f"{s['__key__']}.{name}" for s in samples for name in s if name != "__key__"]
        assert archive.getnames() == names
