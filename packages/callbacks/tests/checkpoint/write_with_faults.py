"""Saves with the k-th call that writes failing, for each k; run with the library of write_faults.c loaded.

python write_with_faults.py LIBRARY SCRATCH FAULT

FAULT is the name of an error, such as ENOSPC, or "kill". One line of JSON is printed per trial: whether a
checkpoint was replaced, what failed, how the saving ended, and the step that the latest checkpoint is of.
"""

import ctypes
import errno
import json
import logging
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

from towerpack_callbacks import CheckpointWriteError, ModelSaver
from towerpack_callbacks.checkpoint import latest_checkpoint, read_checkpoint, write_checkpoint
from towerpack_callbacks.checkpoint.format import (
    TensorFile,
    add_files,
    begin_checkpoint,
    point_to,
    removed_after_error,
    write_files,
)

VALUES = {"a/W": np.arange(60_000, dtype=np.float32), "b": np.ones(3, np.float32)}


def store(directory):
    """The work of a saver after the copy."""
    path = directory / "model-2"
    aside = begin_checkpoint(path)
    with removed_after_error(aside):
        add_files(path, aside, lambda files: put_files(files, directory.parent / "sealed"))
    with TensorFile() as tensor_file:
        write_files(path, aside, VALUES, '{"writing": 2}', tensor_file)
    saver = ModelSaver(keep_last=1)
    saver._dir = directory
    saver._finish(path, 2)


def put_files(files, sealed):
    """The work of a callback with files: one is new, one is linked."""
    (files / "Memory" / "open").mkdir(parents=True)
    (files / "Memory" / "open" / "rows").write_bytes(bytes(1000))
    os.link(sealed, files / "Memory" / "sealed")


def latest_writing(directory):
    """Which writing of all the latest checkpoint is, read as a resumed run reads it."""
    checkpoint = read_checkpoint(latest_checkpoint(directory))
    for name, value in VALUES.items():
        np.testing.assert_array_equal(checkpoint.variables[name], value, strict=True)
    return checkpoint.state["writing"]


class Faults:
    """The library: lets one call fail."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.fault_struck.restype = ctypes.c_char_p

    def store(self, directory, at, code):
        """Saves with a fault: (name of the call that failed, how it ended)."""
        self.library.fault_arm(os.fsencode(directory), at, code)
        try:
            store(directory)
            ended = "saved"
        except CheckpointWriteError as error:
            ended = f"CheckpointWriteError: {error}"
        except BaseException:
            ended = traceback.format_exc()
        struck = self.library.fault_struck().decode()
        self.library.fault_arm(b"", 0, 0)
        return struck, ended


def in_child(work):
    """Runs a function in a separate process: a process with TensorFlow's threads cannot fork."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(99)
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tell(replaces, struck, ended, directory):
    """Prints the line of one trial."""
    print(json.dumps([replaces, struck, ended, latest_writing(directory)]), flush=True)
    shutil.rmtree(directory)


def errors(faults, code, before, replaces):
    """All trials with an error, in one process."""
    at, struck = 0, "none yet"
    while struck:
        at += 1
        directory = before()
        struck, ended = faults.store(directory, at, code)
        tell(replaces, struck, ended, directory)


def kills(faults, before, replaces):
    """All trials with a kill, each in a separate process; another process reads the results."""
    killed, exit_code = [], -9
    while exit_code == -9:
        directory = before()
        at = len(killed) + 1
        exit_code = in_child(lambda at=at, to=directory: faults.store(to, at, -1))
        killed.append((directory, exit_code))
    in_child(lambda: [tell(replaces, "", {-9: "killed", 0: "saved"}[code], path) for path, code in killed])


def main():
    """Goes through all calls, once with a new checkpoint and once with one that replaces another."""
    logging.disable()  # of what could not be removed
    library, scratch, fault = sys.argv[1:]
    faults = Faults(library)
    for replaces in (False, True):
        template = Path(scratch) / f"template{int(replaces)}"

        def make(template=template, steps=(1, 2) if replaces else (1,)):
            for step in steps:
                path = write_checkpoint(template / f"model-{step}", VALUES, {"writing": 1})
                point_to(path.parent / "latest", path)

        def before(template=template):
            directory = Path(tempfile.mkdtemp(dir=scratch)) / "run"
            (directory.parent / "sealed").write_bytes(bytes(1000))
            return Path(shutil.copytree(template, directory, symlinks=True))

        assert in_child(make) == 0
        if fault == "kill":
            kills(faults, before, replaces)
        else:
            code = getattr(errno, fault)
            assert in_child(lambda c=code, b=before, r=replaces: errors(faults, c, b, r)) == 0


if __name__ == "__main__":
    main()
