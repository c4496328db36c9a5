"""Pages with marked tables."""

import pytest

from ctrobust.errors import InputError
from ctrobust.reporting.results_page import fill_page
from ctrobust.store import Store
from tests.reporting.stored import RESULTS

PAGE = """# Title

<!-- attacks
FGSM = {attack = "fgsm:eps=8/255", images = 1000}
-->

Text before.

<!-- table: accuracies
runs = ["fashion-mdl"]
-->
old
<!-- end of table -->

Text after.
"""


def test_the_text_stays_and_the_table_is_replaced() -> None:
    filled = fill_page(PAGE, Store(RESULTS))
    assert "old" not in filled
    assert "| fashion-mdl | 92.8 [92.3, 93.3] | 53.4 [50.3, 56.5] |" in filled
    before, _, after = filled.partition("| run | natural, 10,000 | FGSM |\n|---|---|---|\n")
    assert before == PAGE.partition("old")[0] + "\n"
    assert after.endswith("\n\n<!-- end of table -->\n\nText after.\n")


def test_a_table_may_have_attacks_of_its_own() -> None:
    own = 'runs = ["fashion-mdl"]\nattacks.Own = {attack = "pgd:eps=8/255", images = 1000}'
    filled = fill_page(PAGE.replace('runs = ["fashion-mdl"]', own), Store(RESULTS))
    assert "| run | natural, 10,000 | Own |" in filled
    assert "| fashion-mdl | 92.8 [92.3, 93.3] | 29.6 [26.9, 32.5] |" in filled


def test_a_filled_page_stays_as_it_is() -> None:
    filled = fill_page(PAGE, Store(RESULTS))
    assert fill_page(filled, Store(RESULTS)) == filled


def test_a_page_without_tables_stays_as_it_is() -> None:
    assert fill_page("text <!-- comment -->\n", Store(RESULTS)) == "text <!-- comment -->\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("table: accuracies", "table: accuracy", "line 9, table 'accuracy': unknown kind; known: accuracies, mcnemar"),
        ('runs = ["fashion-mdl"]', "runs =", "line 9, table 'accuracies': its fields are not TOML"),
        ('runs = ["fashion-mdl"]', "names = []", r"its fields are names; they must be runs \(a list\)"),
        ('runs = ["fashion-mdl"]', 'runs = "fashion-mdl"', r"its fields are runs; they must be runs \(a list\)"),
        ("images = 1000", 'images = "1000"', "line 3, attacks: FGSM is .* it must be {attack = TEXT, images = NUMBER}"),
        (
            'runs = ["fashion-mdl"]', 'runs = []\nattacks.FGSM = 3',
            "line 9, table 'accuracies': FGSM is 3; it must be {attack = TEXT, images = NUMBER}",
        ),
        (
            'table: accuracies\nruns = ["fashion-mdl"]', 'table: reproduce\nname = "table1"\nonly = [3]',
            r"only is a list of texts, got \[3\]",
        ),
        ("<!-- end of table -->\n", "", "line 9: '<!-- table: accuracies' does not belong to a table"),
        ("<!-- table: accuracies", "<!-- Table: accuracies", "line 13: '<!-- end of table -->' does not belong"),
        (
            'table: accuracies\nruns = ["fashion-mdl"]', 'table: reproduce\nname = "table99"',
            "line 9, table 'reproduce': unknown experiment 'table99'",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_explained_with_their_line(old: str, new: str, message: str) -> None:
    assert old in PAGE
    with pytest.raises(InputError, match=message):
        fill_page(PAGE.replace(old, new), Store(RESULTS))
