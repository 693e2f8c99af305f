"""Requests each address linked in Markdown files and docstrings; this needs a network.

`python checks/external_links.py` prints one line for each that does not and exits with status 1 if there is
one. `nox -s "release(addresses)"` runs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urldefrag, urlsplit
from urllib.request import Request, urlopen

from links import links, pages
from source_files import ROOT, modules

__all__ = ["addresses", "asked", "unanswered"]

_SECONDS = 20
_IN_SOURCES = re.compile(r"https?://[^\s<>\"'`\]}|\\]+")
# These addresses exist, but reject programs or limit the rate of requests.
_REFUSALS = {401, 403, 405, 406, 429, 503}
# Of examples, of this machine, and of no place that a name is complete without.
_OF_NO_PLACE = re.compile(r"(^|\.)example\.(com|org|net)$|\.test$|^[\d.]+$|^[^.]*$")


def main() -> None:
    """Requests all addresses of the repository."""
    where = addresses(ROOT)
    failures = dict(unanswered(where))
    for address, failure in sorted(failures.items()):
        print(f"{where[address]}: {address}: {failure}")
    if where and len(failures) == len(where):
        print(f"none of {len(where)} addresses answered: is there a network?")
    else:
        print(f"{len(where) - len(failures)} of {len(where)} addresses answered")
    sys.exit(bool(failures))


def addresses(root: Path) -> dict[str, str]:
    """Returns the addresses that pages and sources name, each with the first place that does."""
    found: dict[str, str] = {}
    for page in pages(root):
        for link in links(page):
            _take(found, link.target, f"{page.relative_to(root)}:{link.line}")
    if root == ROOT:
        for module in modules():
            for number, line in enumerate(module.lines, 1):
                for address in _IN_SOURCES.findall(line):
                    if not re.search(r"/$|\{", address):  # what is there begins so
                        _take(found, address.rstrip(".,;:)"), f"{module.at()}:{number}")
    return found


def _take(found: dict[str, str], address: str, place: str) -> None:
    parts = urlsplit(urldefrag(address).url)
    host = parts.hostname or ""
    if parts.scheme in {"http", "https"} and host and not _OF_NO_PLACE.search(host):
        found.setdefault(parts.geturl(), place)


def unanswered(addresses: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields each address that does not answer, and why."""
    listed = list(addresses)
    with ThreadPoolExecutor(8) as executor:
        for address, failure in zip(listed, executor.map(asked, listed)):
            if failure:
                yield address, failure


def asked(address: str, seconds: float = _SECONDS) -> str | None:
    """Requests one address, and returns the error of the answer, or `None`.

    Args:
        address: an address of HTTP.
        seconds: the time limit.
    """
    # Some servers answer HEAD wrongly, so GET has the last word.
    failure = None
    for method in ("HEAD", "GET"):
        request = Request(address, method=method, headers={"User-Agent": "Mozilla/5.0 (links of Towerpack)"})
        try:
            with urlopen(request, timeout=seconds):
                return None
        except HTTPError as error:
            failure = None if error.code in _REFUSALS else f"{error.code} {error.reason}"
        except (URLError, HTTPException, OSError) as error:
            return f"no answer: {getattr(error, 'reason', error) or type(error).__name__}"
        if failure is None:
            return None
    return failure


if __name__ == "__main__":
    main()
