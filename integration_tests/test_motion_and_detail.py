"""The examples of images/ that find motion, and that enlarge: their files, pictures and data are exact."""

import cv2
import numpy as np
import pytest

from towerpack_dataflow import DatasetError, FormatError


@pytest.fixture
def files(image_example):
    """The module that reads and writes motion."""
    return image_example("motion_files")


def test_motion_is_read_as_it_was_written(files, tmp_path):
    motion = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    files.write_flo(tmp_path / "a.flo", motion)
    assert np.array_equal(files.read_flo(tmp_path / "a.flo"), motion)
    content = (tmp_path / "a.flo").read_bytes()
    assert content[:4] == b"PIEH" and content[4:12] == bytes([5, 0, 0, 0, 3, 0, 0, 0])
    assert np.frombuffer(content, "<f4", 2, 12).tolist() == motion[0, 0].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with the number 202021.25 as float32; received b''"),
        (b"RIFF" + bytes(8), "received b'RIFF'"),
        (b"PIEH" + bytes(8), "received 0 and 0"),
        (b"PIEH" + bytes([1, 0, 0, 0, 2, 0, 0, 0]) + bytes(9), "1 x 2 pixels has 28 bytes; received 21"),
    ],
)
def test_other_files_are_no_motion(files, tmp_path, content, message):
    (tmp_path / "a.flo").write_bytes(content)
    with pytest.raises(FormatError, match=f"a.flo: .*{message}"):
        files.read_flo(tmp_path / "a.flo")


def test_the_wheel(image_example):
    colours = image_example("motion_colours")
    motion = np.array([[[2.0, 0], [0, 0], [1, 0], [-2, 0], [np.nan, 0], [2e9, 0]]])
    right, none, half, left, *unknown = colours.motion_picture(motion)[0].tolist()
    assert right == [255, 0, 0] and none == [255] * 3 and half == [255, 128, 128]
    assert left[0] == 0 and unknown == [[0] * 3] * 2
    wheel = colours.wheel_picture(10)
    assert wheel.shape == (21, 21, 3) and wheel[10, 20].tolist() == [255, 0, 0] and (wheel[0, 0] == 255).all()
    with pytest.raises(ValueError, match=r"received shape \(2, 2\)"):
        colours.motion_picture(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="above 0, in pixels; received 0"):
        colours.motion_picture(motion, 0)


def test_motion_leads_to_the_second_picture(image_example):
    moved = image_example("moved_pictures")
    nearer = []
    for seed in range(5):
        first, second, motion = moved.moved_pair(64, np.random.default_rng(seed))
        y, x = np.mgrid[:64, :64].astype(np.float32)
        brought_back = cv2.remap(second, x + motion[..., 0], y + motion[..., 1], cv2.INTER_LINEAR)
        inside = np.s_[16:-16, 16:-16]
        off = [np.median(abs(first.astype(int) - other)[inside]) for other in (brought_back, second)]
        nearer.append(off[0] < 0.4 * off[1])
    assert all(nearer)  # but for what is hidden, and so not in the median


def test_pairs_are_read_from_files(image_example, files, tmp_path):
    moved = image_example("moved_pictures")
    with pytest.raises(DatasetError, match="expected two files"):
        moved.find_pairs(tmp_path)
    for number in range(2):
        *pictures, motion = moved.moved_pair(40, np.random.default_rng(number))
        files.write_flo(tmp_path / f"{number}_flow.flo", motion)
        for part, picture in enumerate(pictures, 1):
            cv2.imwrite(str(tmp_path / f"{number}_img{part}.ppm"), picture[..., ::-1])
    _, held_out = moved.make_flows(tmp_path, 32, None, 1, 0)
    ((first, second, motion),) = held_out
    assert first.shape == second.shape == (1, 32, 32, 3) and motion.shape == (1, 32, 32, 2)
    with pytest.raises(FormatError, match="48 x 48 at least; received 40 x 40"):
        moved.ReadPair(48)(moved.find_pairs(tmp_path)[0], np.random.default_rng(0))


def test_small_pictures_are_means(image_example):
    fine = image_example("fine_pictures")
    picture = fine.draw_picture(np.random.default_rng(0))
    small, large = fine.WithSmall(3)([picture])
    assert large is picture and small.shape == (32, 32, 3)
    assert abs(small - picture.reshape(32, 3, 32, 3, 3).mean((1, 3))).max() <= 0.5 + 1e-6


def test_what_cannot_be_enlarged_is_refused(image_example, tmp_path):
    with pytest.raises(ValueError, match="divisor of 48 from 2 on; received 5"):
        image_example("super_resolution").Enlarger(5, 8)
    with pytest.raises(ValueError, match="multiple of 16; received 40"):
        image_example("flownet").FlowNet(40, 8, False)
    with pytest.raises(DatasetError, match="expected two pictures at least"):
        image_example("fine_pictures").make_flows(tmp_path, 3, 4, 0)
