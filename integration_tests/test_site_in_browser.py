"""Pages of the site in a real browser, as wide as a phone, a tablet and a desktop, light and dark, offline.

Screenshots are kept, for a person to look at. Links are checked in all pages, without the browser.
"""

import os
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PLACE = Path(os.environ.get("TOWERPACK_SITE", "dist/site"))
PICTURES = Path(os.environ.get("TOWERPACK_PICTURES", "dist/pictures"))
LOOKED_AT = {
    "index": "Towerpack",
    "quick-start": "Quick start",
    "the-loop": "The training step",
    "tutorials/01-first-network": "Train a first network",
    "wheels/trainers": "towerpack-trainers",
    "figures": "Benchmark results",
    "reference/generated/towerpack_trainers.SimpleTrainer": "SimpleTrainer",
    "reference/generated/towerpack_trainers.TrainConfig": "TrainConfig",
}
WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1366}
THEMES = ("light", "dark")

# Elements wider than the window that lie in nothing that scrolls by itself.
WIDE = """
const scrolls = (element) => element && element !== document.body && (
    /auto|scroll|hidden/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
return [...document.querySelectorAll('article *')]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 120));
"""

# Visible texts whose contrast with their background is below 4.5, with the contrast.
PALE = """
const channels = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
    return [red, green, blue, alpha];
};
const over = (front, back) => [0, 1, 2].map((at) => front[3] * front[at] + (1 - front[3]) * back[at]);
const background = (element) => {
    if (!element) return [255, 255, 255];
    const colour = channels(getComputedStyle(element).backgroundColor);
    return colour[3] === 1 ? colour : over(colour, background(element.parentElement));
};
const luminance = (colour) => {
    const [red, green, blue] = colour.map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(element);
    const colour = channels(element instanceof SVGTextElement ? style.fill : style.color);
    const back = background(element.closest('svg')?.parentElement ?? element);
    const [low, high] = [luminance(over(colour, back)), luminance(back)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${element.className}: ${text.slice(0, 40)}`);
}
return found;
"""

pytestmark = pytest.mark.skipif(not (PLACE / "index.html").exists(), reason="`nox -s site` has not built it")


def pages():
    """All pages of the site, without their endings."""
    return sorted(str(path.relative_to(PLACE).with_suffix("")) for path in PLACE.rglob("*.html"))


def resize(chromium, width):
    """Sets the width of the page; a window of the system has a least width, and this one has not."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture
def window(chromium):
    """A function that opens a page, and an ordinary window at the end."""

    def open_page(page):
        chromium.get((PLACE / f"{page}.html").resolve().as_uri())

    yield open_page
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def show(chromium, theme):
    """Selects a theme, as the button of the site does."""
    chromium.execute_script("document.body.dataset.theme = arguments[0]", theme)


@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_page(chromium, window, page):
    window(page)
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    assert LOOKED_AT[page] in chromium.title
    [heading] = chromium.find_elements(By.CSS_SELECTOR, "article h1")
    assert heading.is_displayed() and LOOKED_AT[page] in heading.text
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width, theme in ((width, theme) for width in WIDTHS for theme in THEMES):
        resize(chromium, WIDTHS[width])
        show(chromium, theme)
        chromium.save_screenshot(str(PICTURES / f"{page.replace('/', '-')}-{width}-{theme}.png"))
    unnamed = "img:not([alt]), svg[role=img]:not([aria-labelledby]), article a[href]:empty"
    assert chromium.find_elements(By.CSS_SELECTOR, unnamed) == []


@pytest.mark.parametrize("page", [page for page in pages() if "/generated/" not in page or page in LOOKED_AT])
def test_a_page_is_as_wide_as_its_window_and_has_contrast(chromium, window, page):
    window(page)
    for width in WIDTHS.values():
        resize(chromium, width)
        assert chromium.execute_script(WIDE) == [], width
        assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth"), width
        for theme in THEMES:
            show(chromium, theme)
            assert chromium.execute_script(PALE) == [], (width, theme)


def test_the_navigation_of_a_phone(chromium, window):
    window("quick-start")
    resize(chromium, WIDTHS["phone"])
    chromium.find_element(By.CSS_SELECTOR, ".mobile-header label.nav-overlay-icon").click()
    links = chromium.find_elements(By.CSS_SELECTOR, ".sidebar-tree a.reference")
    assert len(links) > 20
    WebDriverWait(chromium, 10).until(lambda _: links[0].is_displayed())  # it slides in


def test_code_of_the_greatest_width_fits_a_desktop(chromium, window):
    window("quick-start")
    resize(chromium, WIDTHS["desktop"])
    columns = """
        const code = document.querySelector('article div.highlight-python pre');
        const style = getComputedStyle(code);
        const ruler = code.appendChild(document.createElement('span'));
        ruler.textContent = 'x'.repeat(88);
        const wide = code.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return wide / ruler.getBoundingClientRect().width;
    """
    assert chromium.execute_script(columns) >= 1


class Found(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.addresses, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        self.addresses += [value for name in ("href", "src") if (value := values.get(name))]


@cache
def found_in(path):
    """The addresses and the anchors of the page in a file."""
    parser = Found()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def is_broken(page, address):
    """Whether an address of a page leads to no file or no anchor of the site."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return False
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return True
    return (
        bool(parts.fragment)
        and target.suffix == ".html"
        and (unquote(parts.fragment) not in found_in(target).anchors)
    )


def test_no_link_is_broken():
    files = [(PLACE / f"{page}.html").resolve() for page in pages()]
    links = [(file, address) for file in files for address in found_in(file).addresses]
    assert len(links) > 10_000
    assert [f"{file.name}: {address}" for file, address in links if is_broken(file, address)] == []


@pytest.mark.parametrize("part", ["±", "&lt;rate&gt;", "&lt;time&gt;", "&lt;path&gt;"])
def test_no_output_has_a_placeholder(part):
    """Outputs are what a reader will see; tolerances are options of blocks, which the site hides."""
    texts = {page: (PLACE / f"{page}.html").read_text(encoding="utf-8") for page in pages()}
    blocks = {page: text.split('class="output')[1:] for page, text in texts.items()}
    assert sum(map(len, blocks.values())) > 50
    shown = {page: [block.partition("</pre>")[0] for block in found] for page, found in blocks.items()}
    assert [page for page, found in shown.items() if any(part in block for block in found)] == []
