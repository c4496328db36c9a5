"""The verdict on networks: planted ones are caught by the cheap tests, and what was measured is not measured again."""

from pathlib import Path

import pytest
import torch
from torch import nn

import ctrobust as ct
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.outcomes import MASKING_TESTS, Measurement, Verdict
from ctrobust.outcomes.masking_tests import FREE_TESTS, RANDOMIZED_TESTS
from tests.evaluation.planted_models import PLANTED, NoisyInput, trained

CHEAP = ("scaled softmax", "1-bit input", "rounded logits", "lookup", "honest natural")
"""Networks whose training takes a second, and that the nearly free tests decide."""


@pytest.mark.parametrize("name", CHEAP)
def test_nearly_free_tests_decide(name: str, planted_folder: Path, digits: Dataset) -> None:
    planted = PLANTED[name]
    verdict = ct.evaluation.masking(planted.build(planted_folder), digits, planted.eps, limit=48, tests="free")
    found = {one.test for one in verdict.evidence if one.level in ("suspicious", "masked")}
    assert found & set(planted.raises) == set(planted.raises)
    assert verdict.level == (planted.level if planted.raises else "not tested")
    assert verdict.setting.count == 48


def test_nothing_is_said_after_the_nearly_free_tests_only(planted_folder: Path, digits: Dataset) -> None:
    verdict = ct.evaluation.masking(trained("natural", planted_folder), digits, 0.05, limit=32, tests="free")
    assert verdict.level == "not tested"
    assert [one.test for one in verdict.evidence if one.level == "none found"] == list(FREE_TESTS)
    assert all(one.seconds > 0 and one.forwards >= 20 for one in verdict.evidence if one.level == "none found")


def test_measurements_are_made_once(planted_folder: Path, digits: Dataset) -> None:
    """A verdict that was stopped after a test goes on with the next one, to the same end."""
    model = trained("natural", planted_folder)
    tests = ("one step beats many", "more effort helps", "unfinished ascent", "silent success", "unstable loss surface")
    kept: list[dict[str, Measurement]] = []

    def keep(_: Verdict, measurements: object) -> None:
        assert isinstance(measurements, dict)
        kept.append(dict(measurements))

    whole = ct.evaluation.masking(model, digits, 0.05, limit=24, tests=tests, on_measured=keep)
    assert [set(one) - {"randomized"} for one in kept] == [set(tests[:count]) for count in range(6)]
    stopped, reported = kept[2], []
    again = ct.evaluation.masking(
        model, digits, 0.05, limit=24, tests=tests, measured=stopped,
        progress=lambda done, total, test: reported.append((done / total, test)),
    )  # fmt: skip
    assert {test for _, test in reported} == {*tests[2:], ""}
    assert [share for share, _ in reported] == sorted(share for share, _ in reported)
    for before, after in zip(whole.evidence, again.evidence, strict=True):
        assert (before.level, before.numbers) == (after.level, after.numbers)
    assert again.evidence[2].seconds == whole.evidence[2].seconds


def test_a_randomized_network_is_tested_on_few_images_by_the_mean_of_repeated_passes(
    planted_folder: Path, digits: Dataset
) -> None:
    model = NoisyInput(trained("natural", planted_folder)).eval()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    verdict, again = (ct.evaluation.masking(model, digits, 0.05, limit=80, tests=RANDOMIZED_TESTS[:2]) for _ in "ab")
    assert torch.equal(before, torch.random.get_rng_state())
    assert verdict.level == "suspicious"
    assert (verdict.setting.count, verdict.setting.repeats) == (64, 20)
    assert [one.numbers for one in verdict.evidence] == [one.numbers for one in again.evidence]
    assert verdict.evidence[1].backwards == 2 * 20 * verdict.evidence[1].numbers["correct"]  # type: ignore[operator]


def test_the_gradients_of_a_randomized_network_are_averaged(planted_folder: Path, digits: Dataset) -> None:
    """With strong noise a single gradient is worthless, yet PGD breaks what the mean of 20 passes gets right."""
    model = NoisyInput(trained("natural", planted_folder)).eval()
    verdict = ct.evaluation.masking(model, digits, 0.3, limit=12, tests=["one step beats many"])
    found = next(one for one in verdict.evidence if one.test == "one step beats many")
    numbers = found.numbers
    assert isinstance(numbers["pgd"], float)
    assert isinstance(numbers["accuracy"], float)
    assert numbers["pgd"] < 0.25 < numbers["accuracy"]
    assert found.backwards % 20 == 0


def test_two_classes_leave_losses_out(planted_folder: Path, digits: Dataset) -> None:
    net = trained("natural", planted_folder)
    two = digits.labels < 2
    data = (digits.images[two][:12], digits.labels[two][:12])
    head = nn.Linear(64, 2)
    head.load_state_dict({name: tensor[:2] for name, tensor in net.head.state_dict().items()})
    net.head = head
    verdict = ct.evaluation.masking(net.eval(), data, 0.05, tests=["loss decides"])
    found = next(one for one in verdict.evidence if one.test == "loss decides")
    assert {"ce", "margin"} <= set(found.numbers)
    assert not {"dlr", "std", "sce"} & set(found.numbers)
    assert found.sentence.endswith("DLR, STD, SCE need at least 3 classes and were left out.")


def test_transfer_needs_another_model(planted_folder: Path, digits: Dataset) -> None:
    """What gradients of ripples do not find, gradients of the network below the ripples do."""
    rippled = PLANTED["rippled input"].build(planted_folder)
    tests = ("one step beats many", "transfer")
    verdict = ct.evaluation.masking(
        rippled, digits, 0.1, limit=48, transfer=trained("natural", planted_folder), tests=tests
    )
    assert next(one for one in verdict.evidence if one.test == "transfer").level == "masked"
    with pytest.raises(InputError, match="the test 'transfer' needs another model"):
        ct.evaluation.masking(rippled, digits, tests=tests)


def test_l2(planted_folder: Path, digits: Dataset) -> None:
    model = trained("natural", planted_folder)
    tests = (*FREE_TESTS, "unstable loss surface", "binarization")
    verdict = ct.evaluation.masking(model, digits, 0.8, "l2", limit=16, tests=tests)
    assert verdict.setting.norm == "l2"
    assert {one.level for one in verdict.evidence if one.test in tests} == {"none found"}


def test_a_model_in_training_mode_is_tested_in_eval_mode_and_put_back(planted_folder: Path, digits: Dataset) -> None:
    model = nn.Sequential(nn.Dropout(0.5), trained("natural", planted_folder)).train()
    with pytest.warns(UserWarning, match="tested in eval mode and put back"):
        verdict = ct.evaluation.masking(model, digits, 0.05, limit=8, tests=["randomized"])
    assert verdict.evidence[0].level == "none found"
    assert all(module.training for module in (model, model[0]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tests": "fre"}, "unknown test 'fre'; known: free, randomized"),
        ({"tests": ["noise", "luck"]}, "unknown test 'luck'"),
        ({"eps": 0.0}, "eps is greater than 0"),
        ({"eps": 8.0}, "eps is for images in"),
        ({"norm": "l1"}, "norm"),
        ({"limit": 0}, "limit is at least 1"),
    ],
)
def test_wrong_arguments(fields: dict[str, object], message: str, planted_folder: Path, digits: Dataset) -> None:
    with pytest.raises(InputError, match=message):
        ct.evaluation.masking(trained("natural", planted_folder), digits, **fields)  # type: ignore[arg-type]


def test_a_model_that_gets_nothing_right(planted_folder: Path, digits: Dataset) -> None:
    data = (digits.images[:6], (digits.labels[:6] + 1) % 10)
    with pytest.raises(InputError, match="none of the 6 images is classified correctly"):
        ct.evaluation.masking(trained("natural", planted_folder), data, tests="free")


def test_every_test_can_be_asked_for(planted_folder: Path, digits: Dataset) -> None:
    """All tests on three images: each is measured, and none fails on so few."""
    model = trained("natural", planted_folder)
    verdict = ct.evaluation.masking(model, digits, 0.3, limit=3, transfer=model)
    assert [one.test for one in verdict.evidence if one.level == "not tested"] == []
    assert verdict.tests_run == len(MASKING_TESTS)
