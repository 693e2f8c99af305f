"""Requests of addresses, from a local server of the test."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from external_links import addresses, asked, unanswered

_ANSWERS = {"/here": 200, "/gone": 404, "/broken": 500, "/refuses-programs": 403}


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer(404 if self.path == "/here-by-get" else _ANSWERS.get(self.path, 404))

    def do_GET(self):
        self._answer(200 if self.path == "/here-by-get" else _ANSWERS.get(self.path, 404))

    def _answer(self, status):
        if self.path == "/moved":
            self.send_response(301)
            self.send_header("Location", "/here")
        else:
            self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *of_the_server):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["/here", "/here-by-get", "/moved", "/refuses-programs"])
def test_addresses_that_answer(server, path):
    assert asked(server + path, 10) is None


def test_addresses_that_do_not_answer(server):
    closed = "http://127.0.0.1:1/"
    found = dict(unanswered([f"{server}/here", f"{server}/gone", f"{server}/broken", closed]))
    assert found.pop(closed).startswith("no answer: ")
    assert found == {f"{server}/gone": "404 Not Found", f"{server}/broken": "500 Internal Server Error"}


def test_a_name_that_no_server_has():
    assert asked("http://nowhere.invalid/", 10).startswith("no answer: ")


def test_addresses_of_pages(tmp_path):
    (tmp_path / "a.md").write_text(
        "[a](https://a.org/x#part)\n[b](https://a.org/x) [c](http://localhost:80/) [d](a.md)\n"
        "[e](https://example.com/)\n\n[f]: http://b.org/y\n"
    )
    assert addresses(tmp_path) == {"https://a.org/x": "a.md:1", "http://b.org/y": "a.md:5"}
