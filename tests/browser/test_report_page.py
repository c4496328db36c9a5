"""The report in a real browser: drawn, sorted, filtered, printed, by mouse and keyboard, without a request."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Locator, Page

from ctrobust.reporting.page import make_page, write_page
from tests.reporting.test_page import NASTY, make_page_runs

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "results"
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}


class Visit:
    """An open page, and all that it printed or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.messages.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def open_all_details(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        self.page.wait_for_function("!document.querySelector('.chart:not([data-state=drawn])')")

    def settle(self) -> None:
        """Wait until Vega has drawn what changed."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of made runs with names that attack it."""
    folder = tmp_path_factory.mktemp("report")
    make_page_runs(folder / "runs")
    write_page(make_page([folder / "runs"], title=f"Runs {NASTY}"), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the committed results."""
    out = tmp_path_factory.mktemp("results") / "report.html"
    write_page(make_page([RESULTS]), out)
    return out


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open a file; in the end nothing was printed, and nothing asked for but the file itself."""
    visits: list[tuple[Visit, Path]] = []

    def open_file(file: Path, width: str = "desk", **options: Any) -> Visit:
        wide, high = WIDTHS[width]
        one = Visit(browser.new_page(viewport={"width": wide, "height": high}, **options))
        visits.append((one, file))
        one.open(file)
        return one

    yield open_file
    for one, file in visits:
        outside = [url for url in one.requests if not url.startswith((file.as_uri(), "data:"))]
        assert (one.messages, outside) == ([], [])
        one.page.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_and_image_is_drawn_and_nothing_is_wider_than_the_window(
    visit: Open, report: Path, width: str
) -> None:
    one = visit(report, width)
    one.open_all_details()
    charts = one.page.locator(".chart")
    assert charts.count() > 15
    for chart in charts.all():
        marks = chart.locator("svg .mark-group.role-frame path, svg .mark-group.role-frame text")
        assert marks.count() > 3, chart.get_attribute("data-figure")
        box = chart.locator("svg").bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 150
    sizes = one.page.evaluate("[...document.images].map((image) => [image.complete, image.naturalWidth])")
    assert sizes == [[True, 1]]
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_committed_results_are_drawn(visit: Open, results: Path) -> None:
    one = visit(results)
    one.open_all_details()
    states = one.page.evaluate("[...document.querySelectorAll('.chart')].map((node) => node.dataset.state)")
    assert len(states) > 40
    assert set(states) == {"drawn"}


def test_script_in_names_does_not_run(visit: Open, report: Path) -> None:
    one = visit(report)
    one.open_all_details()
    assert one.page.title() == f"Runs {NASTY}"
    assert NASTY in one.page.locator("h1").inner_text()
    one.page.locator("[data-records]").first.click()
    assert one.page.locator("script").count() == 4  # the page's own; `visit` checks that no dialog was opened


def column(table: Locator, number: int) -> list[float]:
    texts = table.locator(f"tbody tr:visible td:nth-child({number})").all_inner_texts()
    return [float(found[0]) for text in texts if (found := re.match(r"[\d.]+", text))]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_click_sorts_and_a_second_click_reverses(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width)
    table = one.page.locator("#evaluations")
    header = table.locator("thead th").nth(7)
    before = column(table, 8)
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column(table, 8) == sorted(before, reverse=True)
    header.locator("button").press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(table, 8) == sorted(before)
    table.locator("thead th").first.locator("button").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names)
    assert header.get_attribute("aria-sort") == "none"


def test_rows_are_filtered(visit: Open, results: Path) -> None:
    one = visit(results)
    controls = one.page.locator("[data-table=evaluations]")
    rows = one.page.locator("#evaluations tbody tr:visible")
    total = rows.count()
    controls.locator("input").fill("madry-g3 apgd")
    assert rows.count() == 2
    assert controls.locator("output").inner_text() == f"2 of {total} rows"
    controls.locator("input").fill("")
    controls.locator("select[name=attack]").select_option("AutoAttack")
    controls.locator("select[name=data]").select_option("fashion-mnist")
    assert rows.count() == 3
    controls.locator("select[name=attack]").select_option("")
    controls.locator("select[name=data]").select_option("")
    assert rows.count() == total


def test_a_curve_is_switched_off_and_on_again_by_keyboard(visit: Open, results: Path) -> None:
    one = visit(results)
    lines = one.page.locator("#data-0-loss svg .mark-line path")
    shown = lines.count()
    box = one.page.locator("#data-0 .series input").first
    box.focus()
    box.press("Space")
    one.page.wait_for_function(f"document.querySelectorAll('#data-0-loss svg .mark-line path').length === {shown - 3}")
    box.press("Space")
    one.page.wait_for_function(f"document.querySelectorAll('#data-0-loss svg .mark-line path').length === {shown}")
    one.page.locator("#data-0 [data-check=none]").click()
    one.page.wait_for_function("document.querySelectorAll('#data-0-loss svg .mark-line path').length === 0")


def test_hovering_a_point_shows_its_values(visit: Open, results: Path) -> None:
    one = visit(results)
    figure = one.page.locator("#data-1-profile")
    figure.scroll_into_view_if_needed()
    figure.locator("svg .mark-symbol path").last.hover()
    tooltip = one.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert re.search(r"fashion-\S+.*still correct", tooltip.inner_text(), re.DOTALL)


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


def numbers_of(one: Visit, model: str) -> Locator:
    """The numbers of a model's row in the first table of results: without an attack, worst case, attacks."""
    return one.page.locator(f"#data-0-results tr:has(th a:text-is('{model}')) [data-records]")


def test_a_number_opens_its_record_and_escape_closes_it(visit: Open, results: Path) -> None:
    one = visit(results)
    button = numbers_of(one, "cifar-madry-g0").nth(2)
    button.press("Enter")
    dialog = one.page.locator("#record")
    assert dialog.is_visible()
    assert "FGSM on cifar-madry-g0" in dialog.locator("h3").inner_text()
    text = dialog.inner_text()
    for words in ("--attack fgsm:eps=8/255 --limit 1000", "36.5% [33.6, 39.5]", "revision of the attack"):
        assert words in text
    one.page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert one.page.evaluate("document.activeElement.dataset.records") == button.get_attribute("data-records")


def test_the_spec_of_a_run_has_seed_versions_and_commit(visit: Open, results: Path) -> None:
    one = visit(results)
    numbers_of(one, "cifar-madry-g0").first.click()
    dialog = one.page.locator("#record")
    for summary in dialog.locator("summary").all():
        summary.click()
    text = dialog.inner_text()
    for words in ("seed", "recipe.name", "versions.torch", "commit", "ctrobust train --data cifar10", "verify"):
        assert words in text, words
    dialog.locator("[data-close]").click()
    assert not dialog.is_visible()


def test_a_mean_over_seeds_lists_the_record_of_each(visit: Open, results: Path) -> None:
    one = visit(results)
    numbers_of(one, "cifar-fast-g0").nth(2).click()
    titles = one.page.locator("#record .records > details > summary").all_inner_texts()
    assert titles == [f"FGSM on cifar-fast-g0{seed}" for seed in ("", "-seed1", "-seed2")]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_internal_link_leads_to_something_visible(visit: Open, report: Path, width: str) -> None:
    one = visit(report, width)
    links = one.page.locator("a[href^='#']")
    assert links.count() > 5
    for number in range(links.count()):
        link = links.nth(number)
        target = str(link.get_attribute("href"))
        link.evaluate("(node) => node.click()")
        one.page.wait_for_function("(hash) => location.hash === hash", arg=target)
        found = one.page.locator(f"[id='{target[1:]}']")
        assert found.is_visible()
        if found.evaluate("(node) => node.tagName") == "DETAILS":
            assert found.get_attribute("open") is not None


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


def test_it_prints(visit: Open, results: Path, tmp_path: Path) -> None:
    one = visit(results, color_scheme="dark")
    file = tmp_path / "report.pdf"
    one.page.pdf(path=file, prefer_css_page_size=True)
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", content)) < 80
    one.page.emulate_media(media="print")
    assert (
        one.page.evaluate("getComputedStyle(document.querySelector('.answer')).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert not one.page.locator("nav").is_visible()
    assert one.page.locator("#data-0-tradeoff svg").is_visible()


def test_without_scripts_the_tables_and_sentences_are_there(browser: Browser, report: Path) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    assert "need JavaScript" in page.locator("noscript").inner_text()
    assert page.locator("#data-0-results tbody tr").count() == 3
    page.close()
