"""Tables on terminals of any width."""

import io
import re

import pytest

from ctrobust.cli import tables
from ctrobust.cli.console import PrintableConsole
from ctrobust.cli.tables import percent, print_results
from ctrobust.outcomes import Interval

HEADERS = ("attack", "robust accuracy", "success rate on all images", "forward + backward passes per image")
ROWS = [["pgd:eps=8/255", "72.0% [68.1, 75.9]", "28.0%", "20.5 + 20.0"], ["x[b]", "1.0% [0.1, 2.0]", "99.0%", "1 + 1"]]


def test_percent_has_its_interval() -> None:
    assert percent(0.932, Interval(0.91, 0.95)) == "93.2% [91.0, 95.0]"
    assert percent(0, [0.0, 0.0123]) == "0.0% [0.0, 1.2]"


@pytest.mark.parametrize("width", [40, 50, 60, 66, 72, 80, 100, 140, 1000])
def test_values_are_never_split_over_lines(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = io.StringIO()
    console = PrintableConsole(file=text, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(tables, "output", lambda: console)
    print_results(HEADERS, ROWS)
    shown = text.getvalue()
    for row in ROWS:
        for value in row:
            assert len(re.findall(rf"(?<!\S){re.escape(value)}(?!\S)", shown)) == 1
    words = {word for line in shown.splitlines() for word in line.split()}
    assert words >= {word for header in HEADERS[1:] for word in header.split()}
    assert all(len(line.rstrip()) <= max(width, 58) for line in shown.splitlines())
    rows_of_a_table = [line for line in shown.splitlines() if "pgd:eps=8/255" in line and "72.0%" in line]
    assert len(rows_of_a_table) == (width >= 66)
