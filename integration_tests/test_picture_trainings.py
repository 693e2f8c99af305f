"""The examples that find, move and enlarge pictures reach their figures; only `examples` runs this."""

import re

import pytest


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_objects_are_found(run_example_of, tmp_path):
    line = run_example_of("detection", "faster_rcnn.py", "--epochs", 5, "--scenes", 480, "--held-out", 40)
    box, mask = (float(number) for number in re.findall(r"mAP50 (\d\.\d+)", line))
    assert box > 0.4 and mask > 0.4, line
    assert (tmp_path / "train_log" / "faster_rcnn" / "found.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", [(), ("--correlation",)])
def test_motion_is_found(run_image_example, tmp_path, options):
    line = run_image_example("flownet.py", "--epochs", 4, *options)
    error, none = (float(number) for number in re.findall(r"\d\.\d{4}", line))
    assert error < 0.75 * none, line
    folder = tmp_path / "train_log" / "flownet"
    assert all((folder / name).stat().st_size > 500 for name in ("motion.png", "wheel.png", "motion.flo"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_detail_is_added(run_image_example):
    line = run_image_example("super_resolution.py", "--epochs", 4)
    reached, bicubic = (float(number) for number in re.findall(r"\d+\.\d\d", line))
    assert reached > bicubic + 0.2, line


@pytest.mark.slow
def test_pictures_are_translated_with_the_costs_of_discogan(run_example_of):
    line = run_example_of("gan", "cyclegan.py", "--disco", "--epochs", 3)
    fallen = float(re.search(r"(\d+\.\d) times less", line)[1])
    assert fallen > 2, line
