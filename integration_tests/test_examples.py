"""The examples run as a user runs them."""

import re

import pytest


def run(start, script, *arguments):
    process = start(script, *arguments)
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return output, errors


@pytest.mark.slow
def test_the_demo_trains_resumes_and_predicts(start, tmp_path):
    log_dir = tmp_path / "train_log" / "digits_lenet"
    output, errors = run(start, "digits_lenet.py", "--epochs", 2)
    assert "epoch 2/2: 100%" in errors
    assert re.search(r"fc1/W +\(512, 10\) +5,120 +float32", errors)
    final = r"validation accuracy 0\.\d{4} \(best 0\.\d{4}\), \d+ steps/s, \d+\.\d s of training steps"
    assert re.fullmatch(final, output.splitlines()[-1])
    assert re.search(r"epoch 2, step \d+: .*validation_accuracy", output)
    assert len((log_dir / "stats.jsonl").read_text().splitlines()) == 2
    assert list(log_dir.glob("events.out.tfevents.*"))
    checkpoint = (log_dir / "latest").resolve()

    output, errors = run(start, "digits_lenet.py", "--resume", "--epochs", 3)
    assert f"Going on from {checkpoint}." in errors
    assert "epoch 3/3: 100%" in errors
    assert "epoch 2/3" not in errors
    assert re.fullmatch(final, output.splitlines()[-1])
    assert len((log_dir / "stats.jsonl").read_text().splitlines()) == 3

    output, _ = run(start, "digits_lenet.py", "--resume", "--epochs", 3)
    assert output.splitlines()[-1] == "no epoch was finished in this run"

    output, _ = run(start, "digits_lenet.py", "--load")
    lines = output.splitlines()
    assert len(lines) == 16
    assert all(re.fullmatch(r"truth \d  predicted \d  \(\d+\.\d%\)(  wrong)?", line) for line in lines)
    assert sum("wrong" not in line for line in lines) >= 12


@pytest.mark.slow
def test_the_plain_loop(start, tmp_path):
    output, _ = run(start, "plain_loop.py")
    found = re.search(
        r"accuracy (0\.\d{4}); checkpoints, events and stats.jsonl are in train_log/plain_loop", output
    )
    assert float(found.group(1)) > 0.9
    assert (tmp_path / "train_log" / "plain_loop" / "stats.jsonl").exists()
