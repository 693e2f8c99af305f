"""Examples that find, move and enlarge what pictures show reach their figures; only `examples` runs this."""

import re

import pytest


@pytest.mark.slow
def test_objects_are_found(run_example_of, tmp_path):
    line = run_example_of("detection", "faster_rcnn.py", "--epochs", 5, "--scenes", 480, "--held-out", 40)
    box, mask = (float(number) for number in re.findall(r"mAP50 (\d\.\d+)", line))
    assert box > 0.4 and mask > 0.4, line
    assert (tmp_path / "train_log" / "faster_rcnn" / "found.png").stat().st_size > 1000
