"""The summary says in words what the numbers say, and no more."""

from pathlib import Path

from ctrobust.reporting.page_records import RecordBook
from ctrobust.reporting.page_sections import SectionView, section_view
from ctrobust.reporting.report_models import group_models
from ctrobust.reporting.report_runs import read_runs
from ctrobust.reporting.report_sections import make_sections
from tests.reporting.made_runs import CLASSES, add_evaluations, make_run


def view(path: Path) -> SectionView:
    reading = read_runs([path])
    models = group_models(reading.runs)
    (section,) = make_sections(models)
    return section_view(section, "data-0", RecordBook(models), reading, {one: i for i, one in enumerate(models)})


def test_a_decisive_lead(tmp_path: Path) -> None:
    make_run(tmp_path / "strong", attacks=[("pgd:eps=8/255", 0.9)], draw_seed=1)
    make_run(tmp_path / "weak", {"lr": 0.5}, attacks=[("pgd:eps=8/255", 0.3)], draw_seed=2)
    accurate, robust, real = view(tmp_path).answers
    assert robust.name == "strong"
    text = " ".join(robust.sentences)
    assert "of 120 images stay correct under the attack that was run on all models." in text
    assert "An attack may change each pixel by at most 8/255, 3.1% of the brightness range." in text
    assert "Next is weak with" in text
    assert "The difference on the same 120 images is decisive (+" in text
    assert accurate.question == "Which model is most accurate?"
    assert (real.name, real.level) == ("not tested", "unknown")
    assert real.command.endswith("strong --verdict --eps 8/255")


def test_equal_models_share_the_first_place(tmp_path: Path) -> None:
    make_run(tmp_path / "a", draw_seed=1)
    make_run(tmp_path / "b", {"lr": 0.5}, draw_seed=1)
    accurate, robust, _ = view(tmp_path).answers
    assert (accurate.name, robust.name) == ("a and b", "a and b")
    assert robust.sentences[-1] == "All models are equal in this."


def test_a_lead_of_some_seeds_is_not_decisive(tmp_path: Path) -> None:
    for seed, share in enumerate((0.9, 0.1)):
        make_run(tmp_path / f"a-seed{seed}", {"seed": seed}, attacks=[("pgd:eps=0.1", share)], draw_seed=seed)
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.4)], draw_seed=7)
    robust = view(tmp_path).answers[1]
    assert "on average over 2 seeds" in robust.sentences[0]
    assert "The lead is not decisive: it is ahead in 1 of 2 pairs of seeds" in robust.sentences[-1]


def test_every_lead_that_is_not_decisive_is_named(tmp_path: Path) -> None:
    make_run(tmp_path / "best", attacks=[("pgd:eps=0.1", 0.9)], draw_seed=1)
    make_run(tmp_path / "close", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.89)], draw_seed=2)
    make_run(tmp_path / "near", {"lr": 0.6}, attacks=[("pgd:eps=0.1", 0.88)], draw_seed=3)
    make_run(tmp_path / "far", {"lr": 0.7}, attacks=[("pgd:eps=0.1", 0.1)], draw_seed=4)
    robust = view(tmp_path).answers[1]
    third = next(name for name in ("best", "close", "near") if name not in f"{robust.name} {robust.sentences[1]}")
    assert robust.sentences[-1] == f"The lead over {third} is not decisive."


def test_models_that_met_different_images_are_not_compared(tmp_path: Path) -> None:
    make_run(tmp_path / "a", count=60, draw_seed=1)
    make_run(tmp_path / "b", {"lr": 0.5}, draw_seed=2)
    accurate = view(tmp_path).answers[0]
    assert accurate.sentences[-1].endswith(
        "Whether the difference is decisive is unknown: no evaluations of both on the same images are stored."
    )


def test_no_better_than_guessing_is_called_so(tmp_path: Path) -> None:
    make_run(tmp_path / "a", attacks=[("pgd:eps=0.1", 0.0)])
    robust = view(tmp_path).answers[1]
    assert (robust.name, robust.level) == ("None of them", "bad")
    assert robust.sentences[0] == "None of the models resists: even the best one does no better than guessing."
    assert robust.sentences[-1] == "There is no other model to compare it with."


def test_without_attacks_nothing_is_known(tmp_path: Path) -> None:
    make_run(tmp_path / "a", attacks=[])
    accurate, robust, real = view(tmp_path).answers
    assert accurate.name == "a"
    assert (robust.name, robust.sentences) == ("Nobody knows yet", ["No attack is stored for these models."])
    assert real.sentences == ["There is no robustness to test yet."]


def test_caveats_name_the_limits(tmp_path: Path) -> None:
    make_run(tmp_path / "a", collapsed=True)
    run = make_run(tmp_path / "b", {"lr": 0.5})
    add_evaluations(run, "digits", [("autoattack:eps=0.1", 0.3)], count=60, classes=CLASSES, draw_seed=1)
    make_run(tmp_path / "c", {"lr": 0.7}, finished=False)
    found = view(tmp_path).caveats
    assert found == [
        "Each model was trained once, with one seed: a difference between two models may be a difference between "
        "seeds.",
        "The attacks met 120 images only, a small set: an accuracy near 50% is known to about ±9 points.",
        "Accuracy under attack is an upper bound: a stronger attack can only lower it. AutoAttack (L∞ 0.1) was run on "
        "60 images only and is not part of the comparison; its column is in the table.",
        "c did not meet the compared attacks (FGSM and PGD) and is left out.",
        "a overfitted catastrophically in 1 of 2 epochs, the last one included: 60.0% of a training batch were then "
        "correct under one step and 0.0% under PGD-5.",
        "c is not finished: 2 of 2 epochs.",
    ]
