"""How the report looks in a real browser: every chart drawn, both themes, readable, printed."""

import re
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe

from tests.browser.visits import WIDTHS, Open, Visit

pytestmark = pytest.mark.slow

DRAWN = (Path(__file__).parent / "drawn_charts.js").read_text(encoding="utf-8")


def assert_drawn(one: Visit, least: int) -> None:
    """Every chart has marks and its full size, and cuts no text."""
    found = one.page.evaluate(DRAWN)
    assert len(found) > least
    assert [chart for chart in found if chart[1] < 1 or chart[2] < 200 or chart[3] < 150] == []
    assert [(chart[0], chart[4]) for chart in found if chart[4]] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_and_image_is_drawn_and_nothing_is_wider_than_the_window(
    visit: Open, report: Path, width: str
) -> None:
    one = visit(report, width)
    one.open_all_details()
    assert_drawn(one, 15)
    sizes = one.page.evaluate("[...document.images].map((image) => [image.complete, image.naturalWidth])")
    assert sizes == [[True, 1]]
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_committed_results_are_drawn(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width)
    one.open_all_details()
    assert_drawn(one, 40)
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_theme_follows_the_system_and_the_button(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('#data-0-loss svg .mark-line path')).stroke"
    dark = one.page.evaluate(f"[{colour}, {line}]")
    button = one.page.locator("#theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = one.page.evaluate(f"[{colour}, {line}]")
    assert button.get_attribute("aria-pressed") == "false"
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    one.page.reload()
    one.page.wait_for_selector("html[data-ready]")
    assert one.page.evaluate(f"[{colour}, {line}]") == light


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_accessible(visit: Open, report: Path, width: str, theme: str) -> None:
    one = visit(report, width, color_scheme=theme, reduced_motion="reduce")
    one.open_all_details()
    found = Axe().run(one.page)
    problems = [
        (rule["id"], node["target"], node.get("failureSummary"))
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
    assert problems == []
    assert "color-contrast" in [rule["id"] for rule in found["passes"]]
    one.page.locator("[data-records]").first.click()
    assert Axe().run(one.page)["violations"] == []


NUMBERS = (Path(__file__).parent / "number_contrasts.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_of_confusion_matrices_are_readable(visit: Open, results: Path, theme: str) -> None:
    one = visit(results, color_scheme=theme)
    one.open_all_details()
    contrasts = one.page.evaluate(NUMBERS)
    assert len(contrasts) > 100
    assert min(contrasts) >= 4.5


def test_it_prints(visit: Open, results: Path, tmp_path: Path) -> None:
    one = visit(results, color_scheme="dark")
    file = tmp_path / "report.pdf"
    one.page.pdf(path=file, prefer_css_page_size=True)
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", content)) < 25
    one.page.emulate_media(media="print")
    one.page.set_viewport_size({"width": 1032, "height": 700})  # A4 between its margins
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # else all is printed smaller
    assert (
        one.page.evaluate("getComputedStyle(document.querySelector('.answer')).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert not one.page.locator("nav").is_visible()
    assert one.page.locator("#data-0-tradeoff svg").is_visible()
