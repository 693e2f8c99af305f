"""Files in an object store of a local server, and the cache of their content."""

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import numpy as np
import pytest
from moto.server import ThreadedMotoServer

from towerpack_dataflow import (
    ArgumentError,
    CSVData,
    FormatError,
    JSONLData,
    StorageError,
    TarData,
    index_tar,
    write_tar,
)
from towerpack_dataflow.storage import UrlCache, local_path, open_url

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
CONTENT = np.random.default_rng(0).bytes(3_000_000)
SECRET = "a secret key"


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(endpoint, monkeypatch):
    """A client of an empty bucket; the environment has its address and credentials."""
    settings = {"ACCESS_KEY_ID": "user", "SECRET_ACCESS_KEY": SECRET, "ENDPOINT_URL": endpoint}
    for name, value in {**settings, "REGION": "us-east-1", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    client.put_object(Bucket="bucket", Key="a/data.bin", Body=CONTENT)
    return client


URL = "s3://bucket/a/data.bin"


def upload_tar(store, path, *, index):
    store.upload_file(str(path), "bucket", path.name)
    if index:
        store.upload_file(f"{path}.index", "bucket", f"{path.name}.index")
    return f"s3://bucket/{path.name}"


def test_a_tar_is_read_by_its_index_and_without_one(store, tmp_path):
    samples = [{"__key__": str(number), "a": b"?" * number, "b": b"!"} for number in range(20)]
    write_tar(samples, tmp_path / "data.tar")
    for index in (False, True):
        flow = TarData(upload_tar(store, tmp_path / "data.tar", index=index))
        assert list(flow) == samples and pickle.loads(pickle.dumps(flow)).datapoint(0, 7) == samples[7]


def test_an_index_of_another_tar_of_the_same_size_serves_nothing_wrong(store, tmp_path, caplog):
    path = tmp_path / "data.tar"
    write_tar([{"__key__": str(number), "a": bytes(1000), "b": b"1"} for number in range(9)], path)
    url, size = upload_tar(store, path, index=True), path.stat().st_size
    shorter = [{"__key__": str(number), "a": bytes(900 + number), "b": b"1"} for number in range(9)]
    for samples in (shorter, shorter[::-1]):
        write_tar(samples, path)
        assert path.stat().st_size == size
        upload_tar(store, path, index=False)
        try:
            assert list(TarData(url)) == samples and "is outdated, or has another version" in caplog.text
        except FormatError as error:
            assert "sample 0: '0.a' is not at its position in the index" in str(error)
    assert index_tar(path) == 9 and list(TarData(upload_tar(store, path, index=True))) == samples


def test_an_object_is_read_by_ranges(store):
    with open_url(URL) as file:
        assert (file.name, file.size) == (URL, len(CONTENT))
        assert file.read(1_000_000, 5) == CONTENT[1_000_000:1_000_005] and file.read() == CONTENT
        words = pickle.dumps(file)
        assert SECRET.encode() not in words and pickle.loads(words).read(0, 3) == CONTENT[:3]


KEYS = [
    "a b",
    "a%20b",
    "a#b",
    "a?b",
    "ü",
    "a+b",
    "d#1/x",
    "d%201/x",
    "d?r/c",
    "a%2Fb",
    "100%",
    "a\\b",
    "~'()*",
    "é/x:y",
]


@pytest.mark.parametrize("key", KEYS)
def test_the_key_of_an_object_is_the_literal_text_of_its_url(store, tmp_path, key):
    for other in (
        "a",
        "d",
        "x",
        "a b c",
        "d 1/x",
        "a/b",
    ):  # found by a wrong decoding of the URL
        store.put_object(Bucket="bucket", Key=other, Body=b"of another key")
    store.put_object(Bucket="bucket", Key=key, Body=key.encode())
    with open_url(f"s3://bucket/{key}", UrlCache(tmp_path)) as file:
        assert file.read() == key.encode() and file.name == f"s3://bucket/{key}"


@pytest.mark.parametrize("key", ["a//b", "x/", "", "a/../b", "./a", "a\nb"])
def test_a_key_that_cannot_be_asked_for_is_refused(store, key):
    with pytest.raises(ArgumentError, match="s3://bucket/"):
        open_url(f"s3://bucket/{key}")


def test_an_object_that_changes_is_an_error(store):
    file = open_url(URL)
    store.put_object(Bucket="bucket", Key="a/data.bin", Body=CONTENT[::-1])
    with pytest.raises(StorageError, match=rf"{URL} has changed since it was opened: it had ETag"):
        file.read(0, 3)
    with pytest.raises(StorageError, match="has changed"):
        pickle.loads(pickle.dumps(file))


def test_a_missing_object_is_named(store):
    for missing in (f"{URL}.gz", "s3://bucket-of-nobody/data.bin"):
        with pytest.raises(FileNotFoundError, match=missing):
            open_url(missing)


def test_a_cache_reads_each_block_once(store, tmp_path):
    cache = UrlCache(tmp_path)
    with open_url(URL, cache) as file:
        assert (
            file.read(500, 10) == CONTENT[500:510] and file.read(2**20 - 5, 10) == CONTENT[2**20 - 5 :][:10]
        )
    assert len(list(tmp_path.glob("*/*"))) == 2
    with open_url(URL, UrlCache(tmp_path)) as file:
        store.delete_object(Bucket="bucket", Key="a/data.bin")  # cached content needs no store
        assert file.read(0, 2**21) == CONTENT[: 2**21]
        with pytest.raises(FileNotFoundError, match=URL):
            file.read(2**21, 5)


def test_a_changed_object_is_another_one(store, tmp_path):
    for content in (CONTENT, CONTENT[::-1]):
        store.put_object(Bucket="bucket", Key="a/data.bin", Body=content)
        with open_url(URL, UrlCache(tmp_path)) as file:
            assert file.read(7, 100) == content[7:107]


@pytest.mark.parametrize("damage", [lambda block: block[:-9], lambda block: b"?" + block[1:], lambda _: b""])
def test_a_damaged_block_is_read_again(store, tmp_path, damage):
    with open_url(URL, UrlCache(tmp_path)) as file:
        file.read(0, 5)
        (block,) = tmp_path.glob("*/*")
        block.write_bytes(damage(block.read_bytes()))
        assert file.read(0, 2**20) == CONTENT[: 2**20]


def test_the_limit_holds_and_recently_used_blocks_stay(store, tmp_path):
    cache = UrlCache(tmp_path, max_bytes=2_300_000)
    with open_url(URL, cache) as file:
        for block in (0, 1, 0, 2):
            file.read(block * 2**20, 5)
            for path in tmp_path.glob("*/*"):  # the clock of files may be too coarse for this test
                os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
    assert {path.name for path in tmp_path.glob("*/*")} == {"0", "2"}


@pytest.mark.long
def test_processes_with_too_small_a_cache_read_the_truth(store, tmp_path):
    code = (
        "import hashlib, sys\n"
        "from towerpack_dataflow.storage import UrlCache, local_path, open_url\n"
        "cache = UrlCache(sys.argv[2], max_bytes=4_000_000)\n"
        "for _ in range(15):\n"
        "    print(hashlib.sha256(open_url(sys.argv[1], cache).read()).hexdigest())\n"
        "    local_path(sys.argv[1], cache)"
    )
    arguments = [sys.executable, "-c", code, URL, str(tmp_path)]
    children = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [child.communicate()[0].split() for child in children]
    assert printed == [[hashlib.sha256(CONTENT).hexdigest()] * 15] * 3
    assert all(child.returncode == 0 for child in children)


def test_a_library_gets_a_whole_copy(store, tmp_path):
    path = local_path(URL, UrlCache(tmp_path))
    assert path.endswith("/data.bin") and Path(path).read_bytes() == CONTENT
    before = os.stat(path).st_ino
    assert local_path(URL, UrlCache(tmp_path)) == path and os.stat(path).st_ino == before
    with pytest.raises(StorageError, match=r"has 3000000 bytes, and the limit of the cache in .* is 5000"):
        local_path(URL, UrlCache(tmp_path / "small", max_bytes=5000))


def test_the_folder_of_the_cache_comes_from_the_environment(store, tmp_path, monkeypatch):
    monkeypatch.setenv("TOWERPACK_CACHE", str(tmp_path / "kept"))
    assert local_path(URL).startswith(str(tmp_path / "kept"))


def test_killed_processes_leave_a_cache_that_serves_the_truth(store, tmp_path):
    code = (
        "import os, sys\n"
        "from towerpack_dataflow.storage import UrlCache, open_url\n"
        "file = open_url(sys.argv[1], UrlCache(sys.argv[2]))\n"
        "print('ready', flush=True)\n"
        "file.read()"
    )
    for delay in (0.0, 0.01, 0.03):
        child = subprocess.Popen(
            [sys.executable, "-c", code, URL, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        child.stdout.readline()
        threading.Event().wait(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with open_url(URL, UrlCache(tmp_path)) as file:
            assert file.read() == CONTENT


@pytest.fixture
def web_server():
    """A server that fails as often as its list says, then answers with ranges; None is no answer at all."""
    stalled = threading.Event()
    failures = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if "Signature" in self.path and self.command != "GET":
                self.send_error(403)  # a signature is of one method
                return
            if failures and failures[-1] is None:  # the connection stays open without data
                failures.clear()
                stalled.wait(10)
                return
            if failures:
                self.send_error(failures.pop())
                return
            first, last = 0, len(CONTENT) - 1
            if wanted := self.headers.get("Range"):
                first, last = map(int, wanted.removeprefix("bytes=").split("-"))
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(last + 1 - first))
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(CONTENT)}")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 01 Jun 2026 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(CONTENT[first : last + 1])

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/a/data.bin", failures
    stalled.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_fails_for_a_while_is_asked_again(web_server):
    url, failures = web_server
    with open_url(url) as file:
        failures[:] = [500, 503]
        assert file.read(10, 20) == CONTENT[10:30] and not failures


def test_errors_are_without_credentials(web_server):
    url, failures = web_server
    signed = url.replace("//", "//me:password@") + "?Signature=0a1b2c"
    file = open_url(signed)
    for status, kind, message in [
        (403, PermissionError, "cannot be read"),
        (400, StorageError, "cannot be read"),
        (404, FileNotFoundError, "No such file"),
        (412, StorageError, "has changed since it was opened"),
    ]:
        failures[:] = [status]
        with pytest.raises(kind, match=message) as caught:
            file.read(0, 5)
        assert file.name in str(caught.value)
        assert "password" not in str(caught.value) and "0a1b2c" not in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("make", [JSONLData, CSVData, lambda url: TarData(url, "no function".__contains__)])
def test_flows_over_a_signed_url_name_it_without_the_signature(web_server, make):
    url, _ = web_server
    with pytest.raises((FormatError, StorageError)) as caught:  # the content has another format
        list(make(url.replace("//", "//me:password@") + "?Signature=0a1b2c"))
    assert url in str(caught.value)
    assert "password" not in str(caught.value) and "0a1b2c" not in str(caught.value)


def test_a_server_that_does_not_answer_is_given_up(web_server, monkeypatch):
    url, failures = web_server
    for limit in ("_REQUEST", "_PATIENCE"):
        monkeypatch.setattr(f"towerpack_dataflow.storage._remote_bytes.{limit}", 1)
    with open_url(url) as file:
        failures[:] = [None]
        with pytest.raises(StorageError, match=rf"{url} cannot be read"):
            file.read(0, 5)


def test_a_fork_rejects_reads_that_would_hang(web_server):
    code = (
        "import os, sys\n"
        "from towerpack_dataflow import StorageError\n"
        "from towerpack_dataflow.storage import open_url\n"
        "file = open_url(sys.argv[1])\n"
        "if os.fork():\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "try:\n"
        "    file.read(0, 5)\n"
        "except StorageError as error:\n"
        "    os._exit(7 if 'start_method=\"spawn\"' in str(error) else 8)"
    )
    url, _ = web_server
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code, url], timeout=30).returncode == 7


def test_other_file_systems_are_those_of_fsspec(tmp_path):
    import fsspec

    fsspec.filesystem("memory").pipe("/folder/data.bin", CONTENT)
    with open_url("memory://folder/data.bin", UrlCache(tmp_path)) as file:
        assert file.size == len(CONTENT) and file.read(5, 10) == CONTENT[5:15]
    with pytest.raises(FileNotFoundError, match="memory://folder/none"):
        open_url("memory://folder/none")


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("obstore", URL, "s3"), ("fsspec", "ftp://x/y", "fsspec")]
)
def test_a_missing_library_names_its_extra(monkeypatch, module, url, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"towerpack-dataflow\[{extra}\]"):
        open_url(url)


def test_wrong_budgets_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="max_bytes is an integer from 1 up"):
        UrlCache(tmp_path, max_bytes=0)
