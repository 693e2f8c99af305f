"""Files on a web server: names in URLs; old and new bytes are never combined."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from towerpack_dataflow import ArgumentError, StorageError
from towerpack_dataflow.storage import UrlCache, local_path, open_url

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
OLD, NEW = bytes(2**20) + b"old" * 99, b"\1" * 2**20 + b"new" * 99
FIRST, SECOND = "Mon, 01 Jun 2026 00:00:00 GMT", "Tue, 02 Jun 2026 00:00:00 GMT"


class Site:
    """Files by their raw paths, and how their server answers."""

    def __init__(self):
        self.files, self.asked = {}, []
        self.headers, self.head_headers, self.obeys_if_match, self.ranges = {}, None, False, True


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            site.asked.append(self.path)
            content = site.files.get(self.path)
            if isinstance(content, str):
                self.answer(302, {"Location": content})
                return
            if content is None:
                self.answer(404, {})
                return
            headers = dict(site.headers)
            if self.command == "HEAD" and site.head_headers is not None:
                headers = dict(site.head_headers)
            wanted = self.headers.get("If-Match")
            if site.obeys_if_match and wanted not in (None, headers.get("ETag")):
                self.answer(412, {})
                return
            if (ranged := self.headers.get("Range")) and site.ranges:
                first, last = map(int, ranged.removeprefix("bytes=").split("-"))
                headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                self.answer(206, headers, content[first : last + 1])
            else:
                self.answer(200, headers, content)

        do_HEAD = do_GET

        def answer(self, status, headers, content=b""):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    site.root = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


CHANGES = {
    "Last-Modified alone": ({"Last-Modified": FIRST}, {"Last-Modified": SECOND}, NEW),
    "a strong ETag": ({"ETag": '"1"'}, {"ETag": '"2"'}, NEW),
    "a weak ETag": ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}, NEW),
    "an ETag that is the same": (
        {"ETag": '"1"', "Last-Modified": FIRST},
        {"ETag": '"1"', "Last-Modified": SECOND},
        NEW,
    ),
    "an ETag that is gone": ({"ETag": '"1"'}, {}, NEW),
    "the size alone": ({}, {}, NEW[:-1]),
    "the size of a strong ETag": ({"ETag": '"1"'}, {"ETag": '"1"'}, NEW[:-1]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("address", ["/a/file", "/a/redirected", "/a/file?id=7"])
@pytest.mark.parametrize("obeys", [False, True])
def test_a_file_that_changes_while_it_is_read_is_an_error_with_both_versions(
    site, tmp_path, change, address, obeys
):
    before, after, content = CHANGES[change]
    short = change == "the size of a strong ETag"  # obstore notices that the answer is too short
    text = r"/a/.* has changed since it was opened: it had ETag .* now" + "|/a/.* Requested 1048576" * short
    site.files = {"/a/file": OLD, "/a/file?id=7": OLD, "/a/redirected": "/a/file"}
    site.headers, site.obeys_if_match = before, obeys
    with open_url(site.root + address, UrlCache(tmp_path)) as file:
        assert file.read(0, 2**20) == OLD[: 2**20]
        site.files = {"/a/file": content, "/a/file?id=7": content, "/a/redirected": "/a/file"}
        site.headers = after
        with pytest.raises(StorageError, match=text):
            file.read(2**20, 9)


def test_a_redirect_that_leads_elsewhere_in_between_is_an_error(site):
    site.files = {"/a/file": "/1", "/1": OLD, "/2": NEW}
    site.headers = {"Last-Modified": FIRST}
    with open_url(site.root + "/a/file") as file:
        file.read(0, 9)
        site.files["/a/file"], site.headers = "/2", {"Last-Modified": SECOND}
        with pytest.raises(StorageError, match="has changed since it was opened"):
            file.read(9, 9)


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"1"'}])
def test_a_file_without_a_sure_version_is_read_and_not_kept(site, tmp_path, headers, caplog):
    site.headers = headers
    for content in (OLD, NEW):
        site.files = {"/a/file": content}
        with open_url(site.root + "/a/file", UrlCache(tmp_path)) as file:
            assert file.read(0, 2**20) == content[: 2**20] and file.read(2**20) == content[2**20 :]
        with open(local_path(site.root + "/a/file", UrlCache(tmp_path)), "rb") as copy:
            assert copy.read() == content
    assert not list(tmp_path.glob("*/[0-9]"))
    assert caplog.text.count("a change during a read is not detected") == (0 if headers else 1)


def test_tags_that_some_servers_weaken_for_a_while_are_the_same(site):
    site.files, site.headers = {"/a/file": OLD}, {"ETag": 'W/"1"'}
    with open_url(site.root + "/a/file") as file:
        site.headers, site.obeys_if_match = {"ETag": '"1"'}, True
        assert file.read() == OLD


def test_facts_that_come_with_the_bytes_alone_are_taken(site):
    site.files, site.headers, site.head_headers = (
        {"/a/file": OLD},
        {"ETag": '"1"', "Last-Modified": FIRST},
        {},
    )
    with open_url(site.root + "/a/file") as file:
        assert file.read() == OLD


def test_a_server_without_ranges_is_named(site):
    site.files, site.ranges = {"/a/file": OLD}, False
    with (
        open_url(site.root + "/a/file") as file,
        pytest.raises(StorageError, match="/a/file cannot be read by byte ranges"),
    ):
        file.read(1, 5)


def test_files_that_differ_in_the_query_alone_are_kept_apart(site, tmp_path):
    site.headers = {"ETag": '"1"', "Last-Modified": FIRST}
    site.files = {f"/a/file?id={number}": bytes([number]) * 99 for number in range(3)}
    for _ in range(2):
        for number in range(3):
            url = f"{site.root}/a/file?id={number}"
            with (
                open_url(url, UrlCache(tmp_path)) as file,
                open(local_path(url, UrlCache(tmp_path)), "rb") as copy,
            ):
                assert file.read() == copy.read() == bytes([number]) * 99


def test_a_query_is_in_no_message_of_a_cache(site, tmp_path):
    site.files = {"/a/file?token=secret": OLD}
    with pytest.raises(StorageError, match="is 9;") as caught:
        local_path(f"{site.root}/a/file?token=secret", UrlCache(tmp_path, max_bytes=9))
    assert "secret" not in str(caught.value)


def test_a_new_signature_is_of_the_same_file(site, tmp_path):
    site.headers = {"ETag": '"1"'}
    for signature in ("X-Amz-Signature=0a", "X-Amz-Signature=1b&X-Amz-Expires=9"):
        site.files = {f"/a/file?{signature}": OLD}
        with open_url(f"{site.root}/a/file?{signature}", UrlCache(tmp_path)) as file:
            assert file.read(0, 9) == OLD[:9]
    assert len(list(tmp_path.glob("*/0"))) == 1


NAMES = [
    "a b",
    "a%20b",
    "a%2520b",
    "%C3%BC",
    "ü",
    "a+b",
    "a%2Bb",
    "a%23b",
    "a%3Fb",
    "100%",
    "100%25",
    "a%2Fb",
    "a=b&c;d,e@f:g",
    "(a)*~!'",
    "..a",
    "a%5Cb",
    "x.tar",
]


@pytest.mark.parametrize("folder", ["/", "/f/", "/f%20g/", "/f%2Fg/", "/f g/", "/ü/"])
@pytest.mark.parametrize("name", NAMES)
def test_the_name_in_a_web_address_is_asked_for_as_it_stands(site, folder, name):
    with pytest.raises(FileNotFoundError) as caught:
        open_url(site.root + folder + name)
    (asked,) = site.asked
    assert unquote(asked, errors="surrogateescape") == unquote(folder + name, errors="surrogateescape")
    assert asked.lower().count("%2f") == (folder + name).lower().count("%2f")
    assert (site.root + folder + name) in str(caught.value)


def test_a_fragment_of_a_web_address_is_refused(site):
    with pytest.raises(ArgumentError, match=r"has the fragment 'b', which no server receives.*%23"):
        open_url(site.root + "/a#b")
    assert not site.asked


@pytest.mark.parametrize(
    ("name", "kind"), [("%FF", StorageError), ("..", ArgumentError), ("%2e", ArgumentError)]
)
def test_names_that_cannot_be_asked_for_are_refused(site, name, kind):
    with pytest.raises(kind, match=f"/a/{name}"):
        open_url(f"{site.root}/a/{name}")
    assert not site.asked
