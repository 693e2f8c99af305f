"""The pictures of the pages are what the pages' own code makes."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

DOCS = Path(__file__).parents[1]
PAGES = {"images.md": "augmented.png"}


@pytest.mark.parametrize("page", PAGES)
def test_a_picture_is_made_by_its_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    before, shown, _ = text.partition(f"](pictures/{PAGES[page]})")
    assert shown
    exec("\n".join(re.findall(r"```\s*(?:python|\{\.python[^}]*\})\n(.*?)```", before, re.DOTALL)), {})
    made, kept = (cv2.imread(str(path)) for path in (PAGES[page], DOCS / "pictures" / PAGES[page]))
    # Interpolation differs by a level or so between versions of OpenCV.
    assert made.shape == kept.shape and np.abs(made.astype(int) - kept).mean() < 2
