"""Numbers in the pages that the code decides: thresholds of the masking tests, passes of the attacks."""

import re

import pytest
import torch
from torch import nn

from ctrobust import attacks
from ctrobust.outcomes import THRESHOLDS
from ctrobust.outcomes.masking_tests import CORE_TESTS
from tests.documentation.blocks import ROOT


def table(page: str, header: str) -> list[list[str]]:
    """The cells of the table under a header line."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(header)} .*\n\|[ -|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


def threshold(text: str) -> float | None:
    """A number, a percentage or points; None for a threshold that is none or depends on the number of classes."""
    number = re.match(r"[\d.]+", text)
    if number is None:
        assert text in ("never", "chance, 1/C"), text
        return None
    return float(number[0]) / (100 if "%" in text or "points" in text else 1)


def test_the_thresholds_of_the_verdict() -> None:
    rows = table("masking.md", "test | the number")
    assert [row[0].removesuffix(" *") for row in rows] == list(THRESHOLDS)
    assert {row[0].removesuffix(" *") for row in rows if row[0].endswith("*")} == set(CORE_TESTS)
    for name, _, suspicious, masked in rows:
        bounds = THRESHOLDS[name.removesuffix(" *")]
        assert threshold(suspicious) == pytest.approx(bounds.suspicious), name
        assert threshold(masked) == pytest.approx(bounds.masked), name


@pytest.mark.slow
def test_the_passes_of_robust_images() -> None:
    head = nn.Linear(16, 10)
    model = nn.Sequential(nn.Flatten(), head).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = 1e-3 * torch.randn(parameter.shape, generator=generator)
    head.bias.data[0] = 9.0  # no perturbation changes the class
    x, y = torch.rand(2, 1, 4, 4, generator=generator), torch.zeros(2, dtype=torch.int64)
    rows = table("own-model.md", "attack | forward + backward passes")
    assert len(rows) >= 6
    for names, passes, _ in rows:
        for name in re.findall("`([a-z-]+)`", names):
            found = attacks.parse(f"{name}:eps=0.1").run(model, x, y)
            assert f"{int(found.forwards[0]):,} + {int(found.backwards[0]):,}" == passes, name
