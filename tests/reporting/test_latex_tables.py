"""Tables as LaTeX."""

import re

import pytest

from ctrobust.experiments import experiment
from ctrobust.reporting import render
from ctrobust.reporting.latex_tables import escape_latex
from ctrobust.store import JobIndex
from tests.reporting.stored import COMMITTED


@pytest.mark.parametrize("name", ["table1", "table3", "table7", "figure3"])
def test_every_line_of_a_tabular_has_the_columns_that_it_declares(name: str) -> None:
    text = render(experiment(name, "laptop"), JobIndex(COMMITTED), "latex")
    tabulars = re.findall(r"\\begin\{tabular\}\{(l(?:r+))\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert tabulars
    for declared, body in tabulars:
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        for line in lines:
            spanned = sum(int(count) - 1 for count in re.findall(r"\\multicolumn\{(\d+)\}", line))
            assert line.count(" & ") + 1 + spanned == len(declared)
    assert text.count("{") == text.count("}")


def test_headers_that_columns_share_are_one_cell() -> None:
    text = render(experiment("table1", "laptop"), JobIndex(COMMITTED), "latex")
    assert r"\multicolumn{4}{c}{MNISTNet} & \multicolumn{4}{c}{VGG16} & \multicolumn{4}{c}{ResNet50}" in text
    printed, ours = 13, 1  # the best of the only column in which every row has a value
    assert text.count(r"\textbf{") == printed + ours


def test_a_negative_difference_has_the_minus_of_mathematics() -> None:
    text = render(experiment("table1", "laptop"), JobIndex(COMMITTED), "latex")
    assert r"92.79 [92.3, 93.3] (\textbf{93.53}, $-$0.74)" in text


def test_special_characters_are_escaped() -> None:
    assert escape_latex(r"a_b & 5% {x} \y ~ ^") == (
        r"a\_b \& 5\% \{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{}"
    )
