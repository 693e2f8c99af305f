"""Statistics for a shell command."""

import pytest

from towerpack_callbacks import Callback, PeriodicTrigger, SendStat, StatisticError


class Stat(Callback):
    """Puts a statistic."""

    def _trigger(self):
        self.trainer.monitors.put_scalar("val/error", 1 / self.global_step)

    def produces(self):
        return ["val/error"]


def test_the_command_gets_the_values(line, tmp_path):
    target = tmp_path / "sent"
    line.run([Stat(), SendStat(f"echo 'error {{val/error:.3f}} {{{{}}}}' >> {target}", "val/error")])
    assert target.read_text() == "error 0.333 {}\nerror 0.167 {}\n"


def test_nothing_is_sent_before_there_is_something(line, tmp_path):
    target = tmp_path / "sent"
    send = PeriodicTrigger(SendStat(f"echo x >> {target}", ["val/error"]), every_k_steps=1)
    line.run([Stat(), send], steps_per_epoch=3, max_epoch=1)
    assert not target.exists()


def test_a_command_that_fails_does_not_end_the_training(line, caplog):
    assert line.run([Stat(), SendStat("echo oh no >&2; exit 3 # {val/error}", "val/error")]) == 6
    assert "failed with code 3: oh no" in caplog.text


def test_a_command_that_hangs_does_not_hold_the_training(line, caplog, monkeypatch):
    monkeypatch.setattr("towerpack_callbacks.summaries._summary_callbacks._PATIENCE_SECONDS", 0)
    assert line.run([Stat(), SendStat("exec sleep 100", "val/error")]) == 6
    assert "took longer than 0 s; ended" in caplog.text


def test_places_and_names_belong_together():
    with pytest.raises(ValueError, match=r"has a placeholder for 'cost', but the names are \['val/error'\]"):
        SendStat("echo {cost}", "val/error")


def test_the_statistic_is_produced_before(line):
    with pytest.raises(StatisticError, match="this order works"):
        line.run([SendStat("echo {val/error}", "val/error"), Stat()])
