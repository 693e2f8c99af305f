"""The progress bar."""

import threading

from towerpack_callbacks import ProgressBar


def test_a_bar_for_each_epoch_and_no_thread_left(line, capsys):
    before = threading.enumerate()
    line.run([ProgressBar("cost", every_k_steps=1)], steps_per_epoch=3, max_epoch=2)
    shown = capsys.readouterr().err
    assert "epoch 1/2" in shown
    assert "3/3" in shown
    assert "cost=" in shown
    assert threading.enumerate() == before
