"""Serves the page of runs to a browser on this machine, and renews it while their files grow."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, final

import attrs

from ._charts import Style
from ._read_record import RunError
from ._read_runs import find_runs, read_runs, select_keys
from ._report_page import report_page

__all__ = ["serve_report"]


_ADDRESS = "127.0.0.1"
# Another name would be that of a foreign page, whose owner resolves it to this machine. The port is not
# compared, since a tunnel may have another one.
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?", re.IGNORECASE)
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def serve_report(
    paths: Sequence[Path],
    patterns: Sequence[re.Pattern[str]],
    style: Style,
    port: int,
    started: Callable[[str], None],
) -> None:
    """Serves the page of runs until Ctrl-C, to this machine only; nothing is written.

    Args:
        paths: as in `read_runs`; runs may start later.
        patterns: regular expressions of the names to show; empty: all names.
        style: the initial options of the page.
        port: the port; 0: a free one.
        started: receives the address of the page.

    Raises:
        OSError: the port is not available.
    """
    page = _LivePage(paths, patterns, style)
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), functools.partial(_Handler, page))
    except OSError as error:
        what = f"{error.strerror}; pass another --port, or 0 for a free one"
        raise OSError(error.errno, what, f"{_ADDRESS}:{port}") from error
    with server, contextlib.suppress(KeyboardInterrupt):
        started(f"http://{_ADDRESS}:{server.server_port}/")
        server.serve_forever()


@final
class _LivePage:
    """The newest page, made again if a file has changed."""

    def __init__(self, paths: Sequence[Path], patterns: Sequence[re.Pattern[str]], style: Style) -> None:
        self._paths, self._patterns, self._style = paths, patterns, style
        self._lock = threading.Lock()
        self._stamp, self._page = "", b""

    def get(self) -> tuple[str, bytes]:
        """Returns the stamp of the files and the page.

        Raises:
            OSError: a file was removed while it was read.
        """
        with self._lock:
            stamp = self._stamp_of_files()
            if stamp != self._stamp:
                self._page, self._stamp = self._make(stamp), stamp
            return self._stamp, self._page

    def _stamp_of_files(self) -> str:
        digest = hashlib.sha256()
        for path in find_runs(self._paths):
            for file in sorted({path, *path.glob("*"), *path.glob("images/*/*")}):
                with contextlib.suppress(OSError):  # removed meanwhile
                    status = file.stat()
                    digest.update(
                        f"{file}\0{status.st_mtime_ns}\0{status.st_size}\0".encode(errors="replace")
                    )
        return f'"{digest.hexdigest()}"'

    def _make(self, stamp: str) -> bytes:
        runs = read_runs(self._paths, missing_ok=True)
        try:
            keys = select_keys(runs, self._patterns)
        except RunError as error:  # the statistic may come later
            keys = []
            runs[0] = attrs.evolve(runs[0], notes=[*runs[0].notes, str(error)])
        return report_page(runs, keys, self._style, stamp).encode("utf-8", "replace")


@final
class _Handler(BaseHTTPRequestHandler):
    """Answers requests of the page; all other paths, methods and hosts are refused."""

    timeout = 30  # seconds

    def __init__(self, page: _LivePage, *connection: Any) -> None:
        self._page = page
        super().__init__(*connection)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):  # the browser has gone
            super().handle()

    def do_GET(self) -> None:
        """Sends the page, or status 304 if the browser has it."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0].strip()):
            self.send_error(403, "Open the page by the printed address")
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(404)
            return
        try:
            stamp, page = self._page.get()
        except OSError:
            self.send_error(503, "A file of the run has just been removed; load the page again")
            return
        known = self.headers.get("If-None-Match") == stamp
        self.send_response(304 if known else 200)
        for name, value in {**_HEADERS, "ETag": stamp}.items():
            self.send_header(name, value)
        if not known:
            self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if not known and self.command == "GET":
            self.wfile.write(page)

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Prints nothing for a request."""
