"""A terminal for progress bars to be drawn on."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator


class Screen(io.StringIO):
    """A terminal nobody looks at: progress bars are drawn on it as on any other."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def on_screen() -> Iterator[None]:
    """Sends what is printed to a `Screen`."""
    with contextlib.redirect_stdout(Screen()), contextlib.redirect_stderr(Screen()):
        yield
