"""The progress bar."""

import contextlib
import gc
import logging
import os
import re
import sys
import threading

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MovingAverageSummary, ProgressBar, ScalarPrinter, add_moving_summary


class Terminal:
    """Standard error as a terminal; what it shows is what was written last on each line."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def fileno(self):
        raise OSError("no descriptor")

    def lines(self):
        """The lines as they stand at the end: a carriage return goes back to the beginning."""
        shown = []
        for line in re.sub(r"\x1b\[[\d;]*[Am]", "", self.text).split("\n"):
            screen = ""
            for part in line.split("\r"):
                screen = part + screen[len(part) :]
            shown.append(screen.rstrip())
        return [line for line in shown if line]


class Warn(Callback):
    """Logs in the middle of an epoch."""

    def _trigger_step(self):
        if self.local_step == 1:
            logging.getLogger("users.own").warning("look here")


def test_a_bar_for_each_epoch_and_no_thread_left(line, monkeypatch):
    before, terminal = set(threading.enumerate()), Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line.run([ProgressBar("cost", every_k_steps=1)], steps_per_epoch=3, max_epoch=2)
    assert [text.split(":")[0] for text in terminal.lines()] == ["epoch 1/2", "epoch 2/2"]
    assert all("3/3" in text and "cost=" in text for text in terminal.lines())
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("ends", [True, False])
def test_handlers_that_change_during_an_epoch_stay_changed(line, ends):
    """An import in a step may add one; a failed session calls no hook, and its bar is deleted."""
    root, added, removed = logging.getLogger(), logging.NullHandler(), logging.NullHandler()

    class Change(Callback):
        def _trigger_step(self):
            root.addHandler(added)
            root.removeHandler(removed)
            if not ends:
                raise LookupError("failed")

    root.addHandler(removed)
    try:
        with contextlib.suppress(LookupError):
            line.run([ProgressBar(), Change()], steps_per_epoch=3, max_epoch=1)
        gc.collect()
        assert added in root.handlers and removed not in root.handlers
    finally:
        root.removeHandler(added)
        root.removeHandler(removed)


@pytest.mark.parametrize("columns", [0, 1, 2, 30])
def test_a_terminal_of_any_size(line, monkeypatch, columns):
    """A terminal of unknown width has 0 columns, and a line was cut to -1 columns without end."""
    terminal = Terminal()
    monkeypatch.setattr(terminal, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tqdm.std.disp_trim", lambda data, length: data[:length] if length >= 0 else 1 / 0)
    line.run([ProgressBar(), ScalarPrinter()], steps_per_epoch=3, max_epoch=2)
    assert "epoch 2/2" in terminal.text.replace("\n  ", " ")


def test_no_line_is_broken_by_the_bar(line, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(logging.root, "handlers", [])
    line.run([ProgressBar(), Warn()], monitors=[ScalarPrinter()], steps_per_epoch=3, max_epoch=1)
    warned, bar, over = terminal.lines()
    assert warned == "look here"
    assert bar.startswith("epoch 1/1: 100%")
    assert over == "epoch 1/1, step 3"
    assert logging.root.handlers == []


def test_short_epochs_leave_no_bar_in_a_file(line, capsys):
    line.run([ProgressBar("cost", every_k_steps=1)], steps_per_epoch=3, max_epoch=2)
    assert capsys.readouterr().err == ""


def test_long_epochs_have_lines_in_a_file(line, capsys, monkeypatch):
    monkeypatch.setattr("towerpack_callbacks.monitors._console._SECONDS_IN_A_FILE", 1e-9)
    line.run([ProgressBar()], steps_per_epoch=3, max_epoch=1)
    shown = capsys.readouterr().err
    assert "\r" not in shown
    assert shown.splitlines()[-1].startswith("epoch 1/1: 100%")


def test_the_first_averages_stand_on_the_bar(line, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with line.graph.as_default():
        scalars = [tf.constant(k, tf.float32, name=name) for k, name in enumerate(["queue_size", *"abcd"])]
        tf.add_to_collection("MOVING_SUMMARIES", tf.identity(scalars[0], "QueueInput/queue_size"))
        add_moving_summary(scalars[1:])
    averages = MovingAverageSummary()
    line.run([averages, ProgressBar(averages=averages)], steps_per_epoch=3, max_epoch=1)
    assert "a=1, b=2, c=3]" in terminal.lines()[0]
