"""Threads, child processes and open files of the test process, for tests that none is left behind.

Compare them as sets and never as numbers: those of earlier tests end while a later test runs.
"""

import gc
import os
import threading
from pathlib import Path


def open_files():
    """Each descriptor with the name of its file or socket."""
    gc.collect()
    files = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            files.add((link.name, os.readlink(link)))
        except FileNotFoundError:  # the descriptor of this very listing, or one closed meanwhile
            continue
    return files


def child_processes():
    return {
        pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()
    }


def resources():
    return open_files() | child_processes() | set(threading.enumerate())
