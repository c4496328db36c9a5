"""Colours and shapes of charts."""

from ctrobust.experiments.natural_runs import TEN_METHODS
from ctrobust.reporting.chart_theme import ACCENT, colours, shapes


def test_ten_methods_have_ten_colours_that_every_figure_shares() -> None:
    every = colours(TEN_METHODS)
    assert len(set(every.values())) == 10
    assert colours(["MSD", "MDL"]) == {"MSD": every["MSD"], "MDL": ACCENT}


def test_names_that_are_no_methods_differ_in_colour_and_shape() -> None:
    models = ["NT", "Fast-AT", "Free-AT", "Madry-AT", "TR"]
    assert len(set(colours(models).values())) == 5
    assert len(set(shapes(models).values())) == 5


def test_the_papers_method_has_the_accent_in_any_combination() -> None:
    assert colours(["DC", "DC+MDL"])["DC+MDL"] == ACCENT
