"""The report in a real browser: sorted, filtered, opened, by mouse and keyboard, without a request."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator

from tests.browser.visits import WIDTHS, Open, Visit
from tests.reporting.test_page import NASTY

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_filtered(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width)
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


@pytest.mark.parametrize("width", WIDTHS)
def test_a_curve_is_switched_off_and_on_again_by_keyboard(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width)
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


def numbers_of(one: Visit, model: str) -> Locator:
    """The numbers of a model's row in the first table of results: without an attack, worst case, attacks."""
    return one.page.locator(f"#data-0-results tr:has(th a:text-is('{model}')) [data-records]")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_number_opens_its_record_and_escape_closes_it(visit: Open, results: Path, width: str) -> None:
    one = visit(results, width)
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


def test_the_keyboard_reaches_everything_in_order_and_focus_is_seen(visit: Open, report: Path) -> None:
    one = visit(report, reduced_motion="reduce")
    seen = []
    for _ in range(12):
        one.page.keyboard.press("Tab")
        found = one.page.evaluate(
            """(() => { const node = document.activeElement, box = node.getBoundingClientRect();
              return [node.id || node.className || node.getAttribute('href') || node.textContent,
                getComputedStyle(node).outlineStyle, box.top < innerHeight && box.bottom > 0]; })()"""
        )
        assert found[1:] == ["solid", True], found
        seen.append(found[0])
    assert seen[:3] == ["skip", "theme", "#data-0"]
    assert len(set(seen)) > 8
    one.page.locator(".skip").focus()
    one.page.keyboard.press("Enter")
    assert one.page.evaluate("document.activeElement.id") == "main"


def test_without_scripts_the_tables_and_sentences_are_there(browser: Browser, report: Path) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    assert "need JavaScript" in page.locator("noscript").inner_text()
    assert page.locator("#data-0-results tbody tr").count() == 3
    page.close()
