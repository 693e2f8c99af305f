"""PNG files of a run: what is in them, where they are, and which are removed."""

import zlib

import numpy as np
import pytest

from towerpack_callbacks.writing import cut_pictures_after, encode_png, find_pictures, write_picture


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_an_encoded_picture_has_the_pixels(channels):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    encoded = encode_png(image)
    start = encoded.index(b"IDAT")
    length = int.from_bytes(encoded[start - 4 : start])
    rows = np.frombuffer(zlib.decompress(encoded[start + 4 : start + 4 + length]), np.uint8).reshape(5, -1)
    np.testing.assert_array_equal(rows[:, 0], 0)
    np.testing.assert_array_equal(rows[:, 1:].reshape(image.shape), image)


def test_pictures_are_found_by_name_and_step(tmp_path):
    image = np.zeros((2, 3, 1), np.uint8)
    written = [write_picture(tmp_path, "samples", step, image) for step in (20, 3, 123456789)]
    write_picture(tmp_path, "other", 1, image)
    (tmp_path / "images" / "empty").mkdir()
    (tmp_path / "images" / "samples" / "notes.txt").write_text("not ours")
    (tmp_path / "images" / "file.png").write_text("not ours")
    found = find_pictures(tmp_path)
    assert list(found) == ["other", "samples"]
    assert found["samples"] == [(3, written[1]), (20, written[0]), (123456789, written[2])]
    assert written[1].name == "00000003.png"


def test_a_run_without_pictures(tmp_path):
    assert find_pictures(tmp_path) == {}
    cut_pictures_after(tmp_path, "samples", 0)


def test_pictures_of_later_steps_are_removed_and_other_files_stay(tmp_path):
    for step in (1, 2, 3):
        last = write_picture(tmp_path, "samples", step, np.zeros((1, 1, 1), np.uint8))
    other = write_picture(tmp_path, "other", 9, np.zeros((1, 1, 1), np.uint8))
    last.with_name("notes.txt").write_text("not ours")
    cut_pictures_after(tmp_path, "samples", 1)
    assert [step for step, _ in find_pictures(tmp_path)["samples"]] == [1]
    assert other.exists() and last.with_name("notes.txt").exists()
