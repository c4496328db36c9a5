"""Debian's chromium, driven by Playwright; without it these tests fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from ctrobust.reporting.page import make_page, write_page
from tests.browser.visits import WIDTHS, Open, Visit
from tests.reporting.test_page import NASTY, make_page_runs

RESULTS = Path(__file__).parents[2] / "results"
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of made runs with names that attack it."""
    folder = tmp_path_factory.mktemp("report")
    make_page_runs(folder / "runs")
    write_page(make_page([folder / "runs"], title=f"Runs {NASTY}"), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="session")
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
