"""The page of runs in a real browser: headless Chromium, with no network but a server of this machine."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from towerpack_callbacks.__main__ import main
from towerpack_callbacks.writing import write_picture

EVIL = "</script><script>document.title = 'broken'</script> <b>täte</b> 学习率"

PICTURES = "<b>samples"


def write_run(path, rows):
    path.mkdir(parents=True)
    with (path / "stats.jsonl").open("w") as file:
        for step, row in rows:
            file.write(json.dumps({"epoch_num": 1, "global_step": step, **row}) + "\n")
    return str(path)


def first_row(step):
    row = {"cost": math.exp(-step / 40), "only_first": step % 7 - 3}
    if 50 <= step < 60:
        row["cost"] = "NaN"
    return row


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of two runs with names that differ and names that are the same."""
    place = tmp_path_factory.mktemp("page")
    first = write_run(place / "first", [(step, first_row(step)) for step in range(1, 101)])
    second = write_run(place / "zweiter", [(2 * k, {"cost": 3.0, EVIL: k}) for k in range(1, 101)])
    for run, step in ((first, 0), (first, 40), (first, 100), (second, 60)):
        write_picture(Path(run), PICTURES, step, np.full((4, 6, 1), step, np.uint8))
    assert main(["plot", first, second, "-o", str(place / "curves.html")]) == 0
    return place / "curves.html"


@pytest.fixture
def browser(chromium, page):
    """The page, newly opened; at the end nothing was fetched and nothing was complained of."""
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert chromium.get_log("browser") == []


def chart(browser, name):
    [found] = [
        c
        for c in browser.find_elements(By.CSS_SELECTOR, ".grid > section")
        if c.find_element(By.TAG_NAME, "h2").text == name
    ]
    return found


def curves(browser, name):
    return [
        path.get_attribute("d") for path in chart(browser, name).find_elements(By.CSS_SELECTOR, "path.curve")
    ]


def hover(browser, name, x):
    """Moves to so many pixels right of a chart's middle, and returns the lines of what is shown."""
    svg = chart(browser, name).find_elements(By.TAG_NAME, "svg")[0]
    ActionChains(browser).move_to_element_with_offset(svg, x, 0).perform()
    return browser.find_element(By.ID, "tip").text.splitlines()


def set_slider(browser, value):
    browser.execute_script(
        "const slider = document.getElementById('smoothing'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input'))",
        value,
    )


def test_charts_curves_and_legend(browser):
    headings = [heading.text for heading in browser.find_elements(By.CSS_SELECTOR, "#charts h2")]
    assert headings == [EVIL, "cost", "only_first", PICTURES]  # as text, whatever it looks like
    assert browser.title == "Report: first, zweiter"
    assert [len(curves(browser, name)) for name in headings] == [1, 2, 1, 0]
    assert [label.text for label in browser.find_elements(By.CSS_SELECTOR, "#runs label")] == [
        "first",
        "zweiter",
    ]
    # NaN is a gap in the line, and marks on the edge.
    first, second = curves(browser, "cost")
    assert (first.count("M"), second.count("M")) == (2, 1)
    assert len(chart(browser, "cost").find_elements(By.CSS_SELECTOR, "text.odd")) == 10


def shown_pictures(browser):
    """What is written above the pictures, all of which have loaded."""
    card = chart(browser, PICTURES)
    figures = card.find_elements(By.TAG_NAME, "figure")
    sizes = browser.execute_async_script(
        "const images = [...arguments[0].querySelectorAll('img')], done = arguments[1];"
        "Promise.all(images.map((one) => one.decode().then(() => one.naturalWidth))).then(done)",
        card,
    )
    assert sizes == [6] * len(figures)
    return [figure.text for figure in figures]


def test_pictures_over_time(browser):
    assert shown_pictures(browser) == ["first, step 100", "zweiter, step 60"]
    slider = chart(browser, PICTURES).find_element(By.TAG_NAME, "input")
    slider.send_keys(Keys.ARROW_LEFT)
    assert shown_pictures(browser) == ["first, step 40", "zweiter, step 60"]
    slider.send_keys(Keys.HOME)
    assert shown_pictures(browser) == ["first, step 0", "zweiter, step 60"]
    browser.find_elements(By.CSS_SELECTOR, "#runs input")[0].click()
    assert shown_pictures(browser) == ["zweiter, step 60"]


def test_hovering_shows_values_of_all_runs(browser):
    lines = hover(browser, "cost", 0)
    step = int(lines[0].removeprefix("step "))
    assert 80 < step < 90  # the axis stands left of the middle, and the second run goes on to 200
    assert lines[1].split()[0] == "first" and lines[2].split()[:2] == ["zweiter", "3"]
    assert float(lines[1].split()[1]) == pytest.approx(math.exp(-step / 40), rel=1e-5)
    assert any("NaN" in line for line in hover(browser, "cost", -51))
    ActionChains(browser).move_to_element(browser.find_element(By.ID, "filter")).perform()
    assert not browser.find_element(By.ID, "tip").is_displayed()


def test_arrow_keys_show_values_too(browser):
    svg = chart(browser, "cost").find_elements(By.TAG_NAME, "svg")[0]
    browser.execute_script("arguments[0].focus()", svg)
    svg.send_keys(Keys.ARROW_RIGHT * 3)
    assert browser.find_element(By.ID, "tip").text.startswith("step ")


def test_smoothing(browser):
    before = curves(browser, "only_first")
    set_slider(browser, 0.9)
    assert browser.find_element(By.ID, "weight").text == "0.90"
    after = curves(browser, "only_first")
    assert after != before
    heights = [float(point.split(",")[1]) for point in after[0][1:].split("L")]
    raw = [float(point.split(",")[1]) for point in before[0][1:].split("L")]
    assert max(heights[20:]) - min(heights[20:]) < (max(raw) - min(raw)) / 3
    assert "raw" in " ".join(hover(browser, "only_first", 0))
    set_slider(browser, 0)
    assert curves(browser, "only_first") == before


def test_log_scale(browser):
    browser.find_element(By.ID, "log").click()
    # Of an exponential it makes a straight line.
    points = [
        tuple(map(float, point.split(","))) for point in curves(browser, "cost")[0].split("M")[1].split("L")
    ]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(points, points[10:])]
    assert max(slopes) - min(slopes) < 0.05 * max(slopes)
    assert "values of 0 and below are not on a log scale" in chart(browser, "only_first").text
    labels = [text.text for text in chart(browser, "cost").find_elements(By.CSS_SELECTOR, "svg text")]
    assert {"0.1", "1"} <= set(labels)


def test_runs_can_be_hidden(browser):
    browser.find_elements(By.CSS_SELECTOR, "#runs input")[0].click()
    assert len(curves(browser, "cost")) == 1
    assert curves(browser, "only_first") == []
    assert [line.split()[0] for line in hover(browser, "cost", 0)] == ["step", "zweiter"]


def test_charts_can_be_chosen_by_name(browser):
    browser.find_element(By.ID, "filter").send_keys("COS")
    shown = [
        card for card in browser.find_elements(By.CSS_SELECTOR, ".grid > section") if card.is_displayed()
    ]
    assert [card.find_element(By.TAG_NAME, "h2").text for card in shown] == ["cost"]
    browser.find_element(By.ID, "filter").send_keys("xyz")
    assert browser.find_element(By.ID, "none").is_displayed()


def test_dragging_shows_a_part_of_all_charts_and_the_button_the_whole(browser):
    def steps():
        return [
            text.text for text in chart(browser, "only_first").find_elements(By.CSS_SELECTOR, "svg text")
        ][-4:]

    whole = steps()
    svg = chart(browser, "cost").find_elements(By.TAG_NAME, "svg")[0]
    drag = ActionChains(browser).move_to_element_with_offset(svg, -30, 0).click_and_hold()
    drag.move_by_offset(60, 0).release().perform()
    assert steps() != whole
    browser.find_element(By.ID, "reset").click()
    assert steps() == whole
    assert not browser.find_element(By.ID, "reset").is_displayed()


def test_light_and_dark(browser):
    def background():
        return browser.find_element(By.TAG_NAME, "section").value_of_css_property("background-color")

    light, path = background(), curves(browser, "cost")
    assert light == "rgba(255, 255, 255, 1)"
    browser.find_element(By.ID, "theme").click()
    assert background() != light
    assert curves(browser, "cost") == path


def test_narrow_windows_do_not_scroll_sideways(browser):
    browser.set_window_size(500, 800)
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.set_window_size(1300, 900)


@pytest.mark.slow
def test_a_million_points(chromium, tmp_path):
    rows = (
        (step, {"cost": math.sin(step / 1e5) + (50 if step == 777_777 else 0)}) for step in range(1_000_000)
    )
    run = write_run(tmp_path / "million", rows)
    assert main(["plot", run, "-o", str(tmp_path / "curves.html")]) == 0
    assert os.path.getsize(tmp_path / "curves.html") < 200_000
    chromium.get((tmp_path / "curves.html").as_uri())
    labels = [text.text for text in chart(chromium, "cost").find_elements(By.CSS_SELECTOR, "svg text")]
    assert "50" in labels  # the one value that stands out is in the picture
    assert "1M" in labels or "800k" in labels
    assert chromium.get_log("browser") == []


@pytest.fixture
def report(chromium, tmp_path):
    """The report of a run that was killed and went on, newly opened; all its names are unpleasant."""
    run = Path(write_run(tmp_path / "<b>run", [(step, {EVIL: step}) for step in range(1, 101)]))
    start = {"event": "start", "format": 1, "command": [EVIL], "cwd": EVIL, "max_epoch": 2, "epoch": 0}
    events = [
        {**start, "time": 0, "step": 0},
        {"event": "progress", "time": 60, "epoch": 1, "step": 50, "spent": {"wait": 9, "save": 3}},
        {"event": "progress", "time": 90, "epoch": 2, "step": 75, "spent": {"wait": 12, "save": 3}},
        {**start, "time": 99, "step": 50},
        {"event": "end", "time": 160, "epoch": 2, "step": 100},
    ]
    (run / "run.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (run / "explain.txt").write_text(EVIL)
    write_picture(run, PICTURES, 40, np.full((4, 6, 1), 40, np.uint8))
    assert main(["plot", str(run), "-o", str(tmp_path / "report.html")]) == 0
    chromium.get((tmp_path / "report.html").as_uri())
    yield chromium
    assert chromium.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert chromium.get_log("browser") == []


def opened(page, title):
    """Opens a folded part and returns it."""
    parts = page.find_elements(By.CSS_SELECTOR, "#below details")
    [part] = [part for part in parts if part.find_element(By.TAG_NAME, "summary").text == title]
    part.find_element(By.TAG_NAME, "summary").click()
    return part


def test_a_report_shows_texts_as_texts_beside_its_curves(report):
    assert report.title == "Report: <b>run"
    assert report.find_element(By.CSS_SELECTOR, "#head h1").text == "<b>run"
    assert [heading.text for heading in report.find_elements(By.TAG_NAME, "h2")] == [EVIL, PICTURES]
    folded = [summary.text for summary in report.find_elements(By.CSS_SELECTOR, "#below summary")]
    assert folded == ["Where the time went", "Starts", "Configuration of the training"]
    assert EVIL not in report.find_element(By.ID, "below").text
    assert opened(report, "Configuration of the training").find_element(By.TAG_NAME, "pre").text == EVIL


def test_the_bar_of_a_report_is_as_long_as_its_parts(report):
    bar = opened(report, "Where the time went").find_element(By.CSS_SELECTOR, ".bar")
    widths = [part.size["width"] for part in bar.find_elements(By.TAG_NAME, "span")]
    shares = [seconds / 160 for seconds in (48 + 61, 9, 3, 9, 30)]
    assert widths == pytest.approx([share * bar.size["width"] for share in shares], abs=1.5)


def test_queues_of_the_input_are_folded(chromium, tmp_path):
    rows = [(step, {"cost": 1, "QueueInput/queue_size": step}) for step in (1, 2)]
    assert main(["plot", write_run(tmp_path / "run", rows), "-o", str(tmp_path / "page.html")]) == 0
    chromium.get((tmp_path / "page.html").as_uri())
    assert [heading.text for heading in chromium.find_elements(By.CSS_SELECTOR, "#charts h2")] == ["cost"]
    summary = chromium.find_element(By.CSS_SELECTOR, "#inputs summary")
    assert summary.text == "Queues of the input"
    summary.click()
    [queue] = chromium.find_elements(By.CSS_SELECTOR, "#inputs svg")
    WebDriverWait(chromium, 20).until(lambda _: queue.size["width"] > 300)
    assert float(queue.get_dom_attribute("viewBox").split()[2]) == pytest.approx(queue.size["width"], abs=1)


@contextlib.contextmanager
def ending(server):
    """Kills a server that a failed test leaves."""
    try:
        yield
    finally:
        server.kill()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_live_page_grows_and_keeps_what_its_reader_has_set(chromium, tmp_path):
    run = Path(write_run(tmp_path / "run", [(step, {"cost": 1 / step}) for step in (1, 2)]))
    (run / "explain.txt").write_text("first")
    write_picture(run, "samples", 1, np.zeros((4, 6, 1), np.uint8))
    command = ["env", "--default-signal=INT", sys.executable, "-m", "towerpack_callbacks", "plot", "--serve"]
    wait = WebDriverWait(chromium, 60)
    with subprocess.Popen([*command, str(run)], stdout=subprocess.PIPE, text=True) as server, ending(server):
        chromium.get(server.stdout.readline().split()[-1])
        live = chromium.find_element(By.ID, "live")
        wait.until(lambda _: live.text == "Live")
        set_slider(chromium, 0.5)
        opened(chromium, "Configuration of the training")
        before, svg = curves(chromium, "cost"), chart(chromium, "cost").find_element(By.TAG_NAME, "svg")

        with (run / "stats.jsonl").open("a") as file:
            file.write('{"global_step": 30, "cost": 5, "accuracy": 0.5}\n{"global_step": 40, "c')
        (run / "explain.txt").write_text("second")
        write_picture(run, "samples", 30, np.zeros((4, 6, 1), np.uint8))
        wait.until(lambda _: "at step 30" in chromium.find_element(By.ID, "head").text)
        headings = [heading.text for heading in chromium.find_elements(By.CSS_SELECTOR, "#charts h2")]
        assert headings == ["accuracy", "cost", "samples"]
        assert curves(chromium, "cost") != before
        assert chart(chromium, "samples").find_element(By.TAG_NAME, "figure").text == "run, step 30"
        assert chromium.find_element(By.ID, "weight").text == "0.50"
        assert [pre.text for pre in chromium.find_elements(By.CSS_SELECTOR, "#below pre")] == ["second"]

        # Without new charts, those of the page stay; a chosen picture does, too.
        svg = chart(chromium, "cost").find_element(By.TAG_NAME, "svg")
        chart(chromium, "samples").find_element(By.TAG_NAME, "input").send_keys(Keys.HOME)
        with (run / "stats.jsonl").open("a") as file:
            file.write('ost": 0}\n')
        write_picture(run, "samples", 40, np.zeros((4, 6, 1), np.uint8))
        wait.until(lambda _: "at step 40" in chromium.find_element(By.ID, "head").text)
        assert chart(chromium, "cost").find_element(By.TAG_NAME, "svg") == svg
        assert chart(chromium, "samples").find_element(By.TAG_NAME, "figure").text == "run, step 1"
        assert chromium.get_log("browser") == []

        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0
        wait.until(lambda _: live.text == "Not live: the server does not answer")
    chromium.get("about:blank")
    chromium.get_log("browser")  # the requests that nobody answered


def test_a_report_fits_a_phone(report):
    report.set_window_size(500, 900)
    try:
        inner = report.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert inner[0] <= inner[1]
    finally:
        report.set_window_size(1300, 900)
