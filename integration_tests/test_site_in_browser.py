"""Pages of the site in a real browser, as wide as a desktop's window and as a phone, with no network.

What they look like is kept as pictures, for a person to look at.
"""

import os
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PLACE = Path(os.environ.get("TOWERPACK_SITE", "dist/site"))
PICTURES = Path(os.environ.get("TOWERPACK_PICTURES", "dist/pictures"))
PAGES = {
    "index": "Towerpack",
    "the-loop": "The step",
    "wheels/trainers": "towerpack-trainers",
    "figures": "Measured",
    "reference/generated/towerpack_trainers.SimpleTrainer": "SimpleTrainer",
}
WITHOUT_CODE = {"index", "figures"}
WIDTHS = {"desktop": 1280, "phone": 390}

# Of pages that are wider than their window: what sticks out, and lies in nothing that scrolls by itself.
WIDE = """
const scrolls = (element) => element && element !== document.body && (
    /auto|scroll|hidden/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
return [...document.querySelectorAll('article *')]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 120));
"""

pytestmark = pytest.mark.skipif(not (PLACE / "index.html").exists(), reason="`nox -s site` has not built it")


@pytest.fixture(params=WIDTHS)
def window(chromium, request):
    """A window of one width; a window of the system has a least width, and this one has not."""
    size = {"width": WIDTHS[request.param], "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield request.param
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("page", PAGES)
def test_a_page(chromium, window, page):
    chromium.get((PLACE / f"{page}.html").resolve().as_uri())
    PICTURES.mkdir(parents=True, exist_ok=True)
    chromium.save_screenshot(str(PICTURES / f"{page.replace('/', '-')}-{window}.png"))

    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    assert PAGES[page] in chromium.title
    [heading] = chromium.find_elements(By.CSS_SELECTOR, "article h1")
    assert heading.is_displayed() and PAGES[page] in heading.text
    assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (
        chromium.execute_script(WIDE)
    )
    assert chromium.execute_script(WIDE) == []
    [navigation] = chromium.find_elements(By.CSS_SELECTOR, ".sidebar-tree")
    if window == "phone":  # behind a button
        chromium.find_element(By.CSS_SELECTOR, ".mobile-header label.nav-overlay-icon").click()
    links = navigation.find_elements(By.CSS_SELECTOR, "a.reference")
    assert len(links) > 20
    WebDriverWait(chromium, 10).until(lambda _: links[0].is_displayed())  # it slides in
    code = chromium.find_elements(By.CSS_SELECTOR, "article div.highlight pre, article dt.sig")
    assert page in WITHOUT_CODE or (code and code[0].size["width"] > 100)
