"""Entries in RobustBench's form."""

from dataclasses import replace

import numpy as np

from ctrobust.outcomes import Evaluation
from ctrobust.reporting.robustbench_entry import EntryFacts, robustbench_entry

FACTS = EntryFacts("mdl", "resnet18, width 16", "cifar10", "test", "8/255", "linf", 4, None, "0.1.0")
AUTOATTACK, STRONG = "autoattack:eps=8/255", "strong:eps=8/255"


def outcomes(prediction: list[int]) -> Evaluation:
    labels, zeros = np.array([0, 1, 2, 0]), np.zeros(4, np.int64)
    clean = np.array([0, 1, 2, 1])
    return Evaluation(
        labels, np.eye(3, dtype=np.float32)[clean], None, clean, np.array(prediction), np.zeros(4, np.float32), zeros,
        zeros, np.zeros(4, bool),
    )  # fmt: skip


def test_the_fields_of_robustbench() -> None:
    entry = robustbench_entry(FACTS, {AUTOATTACK: outcomes([0, 1, 0, 1])}, AUTOATTACK)
    assert entry == {
        "link": "",
        "name": "mdl",
        "authors": "",
        "additional_data": False,
        "number_forward_passes": 1,
        "dataset": "cifar10",
        "venue": "N/A",
        "architecture": "resnet18, width 16",
        "eps": "8/255",
        "clean_acc": "75.00",
        "reported": "50.00",
        "autoattack_acc": "50.00",
        "footnote": "Both accuracies are on the first 4 test images (linf); the 95% interval of the robust accuracy is "
        "[15.00, 85.00]. Evaluated with ctrobust 0.1.0. Masking verdict: none was made at this radius.",
        "unreliable": False,
    }


def test_what_other_attacks_find_beyond_autoattack_is_external() -> None:
    found = {AUTOATTACK: outcomes([0, 1, 0, 1]), STRONG: outcomes([1, 1, 2, 1])}
    entry = robustbench_entry(FACTS, found, AUTOATTACK)
    assert (entry["autoattack_acc"], entry["external"]) == ("50.00", "25.00")
    assert f"25.00% is what AutoAttack and {STRONG} leave together." in entry["footnote"]
    same = robustbench_entry(FACTS, {**found, STRONG: outcomes([0, 1, 2, 1])}, AUTOATTACK)
    assert "external" not in same


def test_a_masked_network_is_unreliable() -> None:
    found = {AUTOATTACK: outcomes([0, 1, 0, 1])}
    levels = {
        level: robustbench_entry(replace(FACTS, masking=level, limit=None), found, AUTOATTACK)
        for level in ("masked", "suspicious", "none found", "not tested")
    }
    assert {level: entry["unreliable"] for level, entry in levels.items()} == {
        "masked": True, "suspicious": True, "none found": False, "not tested": False,
    }  # fmt: skip
    assert "Masking verdict: masked." in levels["masked"]["footnote"]
    assert "on all 4 test images" in levels["masked"]["footnote"]
