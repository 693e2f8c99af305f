"""Runs as they are read and thinned out, and the pictures of them."""

import base64
import json
import re
import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks.plot import (
    DASHES,
    THEMES,
    Curve,
    RunError,
    Style,
    read_runs,
    select_keys,
    smooth,
    thin,
    write_png,
    write_report,
)
from towerpack_callbacks.writing import write_picture


def write_run(path, rows):
    path.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"epoch_num": 1, "global_step": step, **row}) + "\n" for step, row in rows]
    (path / "stats.jsonl").write_text("".join(lines))
    return path


@pytest.fixture
def runs(tmp_path):
    """Two runs with one statistic in common; one of each has values that are not finite."""
    first = write_run(tmp_path / "first", [(k, {"cost": 1 / k, "only_first": k}) for k in range(1, 6)])
    second = [(1, {"cost": "NaN"}), (2, {"cost": 3.0}), (3, {"cost": "Infinity", "täte <b>$x$": 1})]
    return read_runs([first, write_run(tmp_path / "zweiter", second)])


# ---- reading


def test_a_run_has_a_curve_for_each_statistic(runs):
    first, second = runs
    assert [run.name for run in runs] == ["first", "zweiter"]
    assert set(first.curves) == {"cost", "only_first"}
    np.testing.assert_array_equal(first.curves["cost"].steps, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(first.curves["cost"].values, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    np.testing.assert_array_equal(second.curves["cost"].values, [np.nan, 3, np.inf])
    np.testing.assert_array_equal(second.curves["täte <b>$x$"].steps, [3])


def test_a_line_being_written_is_no_matter_and_other_lines_are_counted(tmp_path):
    path = write_run(tmp_path / "run", [(1, {"cost": 1}), (2, {"cost": 2, "note": "text", "list": [1]})])
    with (path / "stats.jsonl").open("a") as file:
        file.write('no statistics\n[1]\n\n{"epoch_num": 1}\n{"global_step": 3, "co')
    [run] = read_runs([path / "stats.jsonl"])
    assert list(run.curves) == ["cost"]
    assert run.notes == [f"{path / 'stats.jsonl'}: 3 lines are not statistics"]


def test_steps_that_go_back_are_put_in_order(tmp_path):
    path = write_run(tmp_path / "run", [(step, {"cost": step}) for step in (5, 6, 1, 2)])
    [run] = read_runs([path])
    np.testing.assert_array_equal(run.curves["cost"].steps, [1, 2, 5, 6])
    np.testing.assert_array_equal(run.curves["cost"].values, [1, 2, 5, 6])


def test_names_tell_runs_apart(tmp_path, monkeypatch):
    for place in ("a/run", "b/run", "c"):
        write_run(tmp_path / place, [(1, {"cost": 1})])
    monkeypatch.chdir(tmp_path)
    names = [run.name for run in read_runs(["a/run", "b/run", "c", "c"])]
    assert names == ["a/run", "b/run", "c", "c #2"]


def test_a_directory_of_runs_stands_for_them(tmp_path):
    for place in ("runs/b", "runs/a", "runs/a/inner", "runs/c/d"):
        write_run(tmp_path / place, [(1, {"cost": 1})])
    assert [run.path.name for run in read_runs([tmp_path / "runs"])] == ["a", "b"]
    assert [run.path.name for run in read_runs([tmp_path / "runs/a"])] == ["a"]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, r"there is no .*run \(yet\); expected the log directory of a run, or a file"),
        (
            lambda path: path.mkdir(),
            r"run contains no run yet: neither run.jsonl nor stats.jsonl nor a check",
        ),
        (lambda path: write_run(path, []), r"contains no run yet: .*; expected the log directory"),
        (lambda path: write_run(path, [(1, {})]), r"contains no run yet: .*; expected the log directory"),
    ],
)
def test_what_is_no_run(tmp_path, prepare, message):
    prepare(tmp_path / "run")
    with pytest.raises(RunError, match=message):
        read_runs([tmp_path / "run"])
    [run] = read_runs([tmp_path / "run"], missing_ok=True)
    assert run.curves == {} and re.search(message, run.notes[0])


def test_a_file_of_something_else(tmp_path):
    (tmp_path / "run").write_text("a\nb\nc")
    with pytest.raises(RunError, match=r"run: 2 lines are not statistics; .*run contains no statistics yet"):
        read_runs([tmp_path / "run"])


def test_keys_are_chosen_by_regular_expressions(runs):
    assert select_keys(runs, []) == ["cost", "only_first", "täte <b>$x$"]
    assert select_keys(runs, [re.compile("^t"), re.compile("OST", re.IGNORECASE)]) == ["cost", "täte <b>$x$"]
    with pytest.raises(RunError, match=r"no statistic matches 'onlyfirst'; did you mean only_first\?"):
        select_keys(runs, [re.compile("onlyfirst")])
    with pytest.raises(RunError, match=r"no statistic matches 'xyz'; there are: cost, only_first, täte"):
        select_keys(runs, [re.compile("xyz")])


# ---- thinning out

CURVES = st.lists(st.tuples(st.integers(0, 10**12), st.floats(width=32)), min_size=1, max_size=60)


def as_curve(points):
    points = sorted(points, key=lambda point: point[0])
    return Curve(np.array([p[0] for p in points], np.int64), np.array([p[1] for p in points], np.float64))


@given(CURVES, st.integers(1, 20))
def test_thinning_keeps_range_last_step_and_non_finite_values(points, limit):
    curve = as_curve(points)
    thinned = thin(curve, limit)
    assert len(thinned.steps) <= max(limit, 1)
    assert thinned.steps[-1] == curve.steps[-1]
    kinds = {kind for _, kind in thinned.odd}
    assert ("NaN" in kinds) == np.isnan(curve.values).any()
    assert ("Infinity" in kinds) == (curve.values == np.inf).any()
    assert ("-Infinity" in kinds) == (curve.values == -np.inf).any()
    finite = curve.values[np.isfinite(curve.values)]
    low = thinned.values if thinned.low is None else thinned.low
    high = thinned.values if thinned.high is None else thinned.high
    if finite.size:
        assert np.nanmin(low) == finite.min()
        assert np.nanmax(high) == finite.max()
    else:
        assert np.isnan(thinned.values).all()


def test_a_short_curve_stays_as_it_is():
    curve = Curve(np.arange(5), np.array([1, np.nan, 3, 4, -np.inf]))
    thinned = thin(curve, 5)
    np.testing.assert_array_equal(thinned.values, [1, np.nan, 3, 4, np.nan])
    assert thinned.low is None and thinned.odd == [(1, "NaN"), (4, "-Infinity")]


def test_intervals_are_means():
    thinned = thin(Curve(np.arange(8), np.arange(8.0)), 4)
    np.testing.assert_array_equal(thinned.steps, [1, 3, 5, 7])
    np.testing.assert_array_equal(thinned.values, [0.5, 2.5, 4.5, 6.5])
    np.testing.assert_array_equal(thinned.low, [0, 2, 4, 6])


@pytest.mark.parametrize("limit", [1, 4])
def test_values_too_large_to_draw_count_as_infinite(limit):
    thinned = thin(Curve(np.arange(4), np.array([1.7e308, 1e300, -1e300, -1e308])), limit)
    assert np.nanmean(thinned.values) == 0
    assert [kind for _, kind in thinned.odd] == ["Infinity", "-Infinity"]


def test_smoothing_is_unbiased_and_passes_over_gaps():
    values = np.array([2.0, np.nan, 4.0])
    np.testing.assert_allclose(smooth(values, 0.5), [2.0, np.nan, (0.25 * 2 + 0.5 * 4) / 0.75])
    np.testing.assert_array_equal(smooth(values, 0.0), values)
    np.testing.assert_allclose(smooth(np.full(50, 3.0), 0.99), 3.0)


# ---- pictures


def embedded(page):
    [data] = re.findall(r'<script id="data" type="application/json">(.*)</script>', page)
    return json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_page_is_one_file_with_the_data_in_it(runs, tmp_path):
    path = tmp_path / "out.html"
    write_report(runs, select_keys(runs, []), path, Style(theme="dark", log=True, smoothing=0.5))
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    data = embedded(page)
    assert data["style"] == {"theme": "dark", "log": True, "smoothing": 0.5}
    assert data["runs"][1]["curves"]["cost"] == {
        "x": [1, 2, 3],
        "y": [None, 3.0, None],
        "odd": [[1, "NaN"], [3, "Infinity"]],
    }
    assert [p.name for p in tmp_path.glob("*.html")] + [p.name for p in tmp_path.glob(".*")] == ["out.html"]


def test_names_cannot_leave_the_script(tmp_path):
    evil = "</script><script>alert(1)</script><!--"
    [run] = read_runs([write_run(tmp_path / "run", [(1, {evil: 1.0})])])
    write_report([run], [evil], tmp_path / "out.html", Style())
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and "<!--" not in page
    assert embedded(page)["keys"] == [evil]


@pytest.fixture
def artist(tmp_path):
    """A run with pictures."""
    path = write_run(tmp_path / "artist", [(1, {"cost": 1.0})])
    for step in range(0, 1000, 10):
        write_picture(path, "samples", step, np.full((2, 3, 1), step % 256, np.uint8))
    return path


def test_a_page_has_pictures_over_time_and_never_lacks_the_last(artist, runs, tmp_path):
    [run] = read_runs([artist])
    assert select_keys([run, *runs], [re.compile("a|c")]) == ["cost", "samples"]
    write_report([run, *runs], ["cost", "samples"], tmp_path / "page.html", Style())
    page = embedded((tmp_path / "page.html").read_text())
    assert page["keys"] == ["cost"] and page["series"] == ["samples"]
    assert [list(one["pictures"]) for one in page["runs"]] == [["samples"], [], []]
    pictures = page["runs"][0]["pictures"]["samples"]
    assert len(pictures) == 50 and (pictures[0][0], pictures[-1][0]) == (0, 990)
    for step, content in pictures:
        assert base64.b64decode(content) == (artist / "images/samples" / f"{step:08d}.png").read_bytes()


def test_pictures_are_of_directories_and_not_of_files(artist):
    [run] = read_runs([artist / "stats.jsonl"])
    assert run.pictures == {}


def test_a_png_has_no_pictures(artist, tmp_path):
    with pytest.raises(RunError, match=r"none of the names is a statistic; write a page: -o report.html"):
        write_png(read_runs([artist]), ["samples"], tmp_path / "out.png", Style())


def pixels(path):
    """Width and height of a PNG whose parts are whole."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n") and content[-8:-4] == b"IEND"
    assert struct.unpack(">I", content[29:33])[0] == zlib.crc32(content[12:29])
    return struct.unpack(">II", content[16:24])


@pytest.mark.slow
@pytest.mark.parametrize("style", [Style(), Style("dark", log=True, smoothing=0.9)])
def test_a_picture_has_a_chart_for_each_statistic(runs, tmp_path, style):
    write_png(runs, ["cost"], tmp_path / "one.png", style)
    write_png(runs, select_keys(runs, []), tmp_path / "three.png", style)
    (width, height), (width_of_three, height_of_three) = (
        pixels(tmp_path / "one.png"),
        pixels(tmp_path / "three.png"),
    )
    assert height > 400 and height_of_three == height
    assert width_of_three == 3 * width


@pytest.mark.slow
def test_a_statistic_that_never_was_finite_or_positive_is_drawn(tmp_path):
    rows = [(k, {"nan": "NaN", "negative": -k, "huge": 1e308 * (-1) ** k}) for k in range(1, 4)]
    runs = read_runs([write_run(tmp_path / "_run", rows)])
    write_png(runs, ["nan", "negative", "huge"], tmp_path / "out.png", Style(log=True))
    assert pixels(tmp_path / "out.png")[0] > 1000


@pytest.mark.slow
def test_a_name_that_is_no_unicode_is_drawn(tmp_path):
    """The name of a directory may have bytes that are not UTF-8; JSON may have half of a pair."""
    run = write_run(tmp_path / "run\udcff", [(1, {"cost\ud800": 1.0})])
    runs = read_runs([run])
    write_png(runs, select_keys(runs, []), tmp_path / "out.png", Style())
    write_report(runs, select_keys(runs, []), tmp_path / "out.html", Style())
    assert pixels(tmp_path / "out.png")[0] > 400 and "run?" in (tmp_path / "out.html").read_text()


def test_a_picture_without_matplotlib(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-callbacks\[plot\]', or write a page"):
        write_png(runs, ["cost"], tmp_path / "out.png", Style())


def luminance(colour):
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_text_and_curves_stand_out(theme):
    """The Web Content Accessibility Guidelines ask for 4.5 of text, and 3 of what is drawn."""
    assert contrast(theme.text, theme.background) > 7
    assert contrast(theme.muted, theme.background) > 4.5
    assert min(contrast(colour, theme.background) for colour in theme.runs) > 2.3
    assert len(set(theme.runs)) == len(theme.runs) and len(set(DASHES)) == len(DASHES)
