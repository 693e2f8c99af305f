"""Files in an object store, of a local server, and the cache of what was read of them."""

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

from towerpack_dataflow import ArgumentError, StorageError
from towerpack_dataflow.storage import UrlCache, local_path, open_url

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
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


def test_an_object_is_read_by_ranges(store):
    with open_url(URL) as file:
        assert (file.name, file.size) == (URL, len(CONTENT))
        assert file.read(1_000_000, 5) == CONTENT[1_000_000:1_000_005] and file.read() == CONTENT
        words = pickle.dumps(file)
        assert SECRET.encode() not in words and pickle.loads(words).read(0, 3) == CONTENT[:3]


def test_an_object_that_changes_is_an_error(store):
    file = open_url(URL)
    store.put_object(Bucket="bucket", Key="a/data.bin", Body=CONTENT[::-1])
    with pytest.raises(StorageError, match=rf"{URL} has changed since it was opened"):
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
        store.delete_object(Bucket="bucket", Key="a/data.bin")  # what is kept needs no store
        assert file.read(0, 2**21) == CONTENT[: 2**21]
        with pytest.raises(FileNotFoundError, match=URL):
            file.read(2**21, 5)


def test_a_changed_object_is_another_one(store, tmp_path):
    for content in (CONTENT, CONTENT[::-1]):
        store.put_object(Bucket="bucket", Key="a/data.bin", Body=content)
        with open_url(URL, UrlCache(tmp_path)) as file:
            assert file.read(7, 100) == content[7:107]


@pytest.mark.parametrize("damage", [lambda block: block[:-9], lambda block: b"?" + block[1:], lambda _: b""])
def test_a_damaged_block_is_read_anew(store, tmp_path, damage):
    with open_url(URL, UrlCache(tmp_path)) as file:
        file.read(0, 5)
        (block,) = tmp_path.glob("*/*")
        block.write_bytes(damage(block.read_bytes()))
        assert file.read(0, 2**20) == CONTENT[: 2**20]


def test_the_budget_is_kept_and_what_was_used_last_stays(store, tmp_path):
    cache = UrlCache(tmp_path, max_bytes=2_300_000)
    with open_url(URL, cache) as file:
        for block in (0, 1, 0, 2):
            file.read(block * 2**20, 5)
            for path in tmp_path.glob("*/*"):  # the clock of files may be too coarse for this test
                os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
    assert {path.name for path in tmp_path.glob("*/*")} == {"0", "2"}


def test_a_library_gets_a_whole_copy(store, tmp_path):
    path = local_path(URL, UrlCache(tmp_path))
    assert path.endswith("/data.bin") and Path(path).read_bytes() == CONTENT
    before = os.stat(path).st_ino
    assert local_path(URL, UrlCache(tmp_path)) == path and os.stat(path).st_ino == before
    with pytest.raises(StorageError, match=r"has 3000000 bytes, and the cache in .* may have 5000"):
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
    """A server that fails as often as its list says, then answers with ranges."""
    failures = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
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
    failures[:] = [403]
    with pytest.raises(StorageError, match="cannot be read") as caught:
        open_url(signed)
    assert "password" not in str(caught.value) and "0a1b2c" not in str(caught.value)
    assert caught.value.__cause__ is None


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
