"""Table 7: attack success rates of FGSM, PGD and APGD with five losses on five models."""

from ctrobust.experiments.adversarial_runs import adversarial_footnotes, adversarial_run
from ctrobust.experiments.attack_jobs import attack_footnotes, attack_job
from ctrobust.experiments.canonical_attacks import sce_loss
from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.fast_free_madry_rows import FAST_WITHOUT_CTR
from ctrobust.experiments.natural_runs import Setting, natural_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Above, MostAbove, Statement, above_all
from ctrobust.experiments.table import Column, Row, Table, read_block
from ctrobust.specs import EvaluationJob, TrainSpec

PRINTED = """
FGSM; CE         |  47.45  46.05  46.05  43.9   45.5
FGSM; SCE (ours) |  47.55 *46.35  46.3  *44.65  45.7
FGSM; KL         |  26.45  24.35  25.0   25.05  22.2
FGSM; SKL (ours) |  24.9   25.75  25.55  24.75  22.05
FGSM; STD (ours) | *53.75  45.95 *46.95  44.55 *46.6
PGD; CE          |  75.7   53.0   50.45  48.65  53.4
PGD; SCE (ours)  |  76.05 *54.3  *51.75 *51.45 *54.25
PGD; KL          |  43.55  39.35  36.15  36.6   37.85
PGD; SKL (ours)  |  43.35  40.05  37.05  36.65  38.95
PGD; STD (ours)  | *82.25  52.9   51.2   49.55 *54.25
APGD; CE         |  89.45  55.8   52.55  50.7   56.3
APGD; SCE (ours) |  89.6  *57.4  *54.85 *53.0  *57.2
APGD; KL         |  59.7   53.8   39.2   39.25  43.3
APGD; SKL (ours) |  59.75  54.25  39.6   39.4   43.55
APGD; STD (ours) | *90.4   55.8   53.0   51.4   56.65
"""

MODELS_IN_TABLE = ("NT", "Fast-AT", "Free-AT", "Madry-AT", "TR")
COLUMNS = tuple(Column(model, (model,)) for model in MODELS_IN_TABLE)

ATTACK_LOSS_TEXTS = {"CE": "ce", "SCE": sce_loss(5), "KL": "kl", "SKL": "skl(gamma=1)", "STD": "std"}
"""The paper's name -> the loss in canonical texts."""

UNSCALED_STEP = "2/255"
"""The step size of PGD on the naturally trained model, by the reading that fits the printed values."""


def attacked_run(preset: Preset, model: str) -> TrainSpec:
    """The training of a model that is attacked: natural, or adversarial without CTR."""
    schedule = "cyclic" if preset.name == "laptop" else "multistep"
    match model:
        case "NT":
            return natural_run(preset, "DO", Setting("resnet18", schedule, "cifar10"))
        case "Fast-AT":
            return adversarial_run(preset, "fast", schedule, 0, epochs=FAST_WITHOUT_CTR[schedule.capitalize()])
        case "Free-AT":
            return adversarial_run(preset, "free", schedule, 0)
        case "Madry-AT":
            return adversarial_run(preset, "madry", schedule, 0)
        case _:
            return adversarial_run(preset, "trades", schedule, 0, beta=6 if preset.name == "laptop" else 1)


def loss_attack(preset: Preset, model: str, attack: str, loss: str, *, scaled: bool = False) -> EvaluationJob:
    """An attack with a loss on a model; `scaled` gives PGD on the natural model steps of eps / 4."""
    step = UNSCALED_STEP if (model, attack, scaled) == ("NT", "PGD", False) else ""
    run = attacked_run(preset, model)
    return attack_job(preset, run, attack, "2/255" if model == "NT" else "8/255", loss=loss, step=step)


def table7(preset: Preset) -> Table:
    rows, cells, second = [], [], []
    for headers, values in read_block(PRINTED):
        attack, loss = headers[0], headers[1].removesuffix(" (ours)")
        label, text = f"{attack} {loss}", ATTACK_LOSS_TEXTS[loss]
        rows.append(Row(label, headers, group=attack))
        for model, value in zip(MODELS_IN_TABLE, values, strict=True):
            job = loss_attack(preset, model, attack, text)
            cells.append(Cell(label, model, "attack_success_rate", (job,), value.text, value.bold))
        if attack == "PGD":
            job = loss_attack(preset, "NT", attack, text, scaled=True)
            name = f"{label}, steps of eps/4"
            second.append(Cell(name, "NT", "attack_success_rate", (job,), values[0].text, values[0].bold))
    return Table(
        name="table7",
        preset=preset.name,
        title="Attack success rate (%) of gradient attacks with different losses on ResNet18 and CIFAR10",
        row_headers=("Methods", "Loss"),
        rows=tuple(rows),
        columns=COLUMNS,
        cells=tuple(cells),
        bold_rule="best of the group",
        footnotes=table7_footnotes(preset),
        statements=_statements(),
        second_readings=tuple(second),
    )


def table7_footnotes(preset: Preset) -> tuple[str, ...]:
    """The readings of table 7 and figure 7."""
    models = "The attacked models are those without CTR, Multistep, TRADES with beta 1: the FGSM-CE row is exactly 100 "
    models += "minus their accuracies in tables 5 and 6. The natural model is not described; here it has dropout."
    laptop = (
        "Laptop: the attacked models are those of Cyclic, TRADES with beta 6; the natural model is trained "
        f"{preset.natural_epochs['cifar10']} epochs instead of 200.",
    )
    return (
        models,
        "eps is 2/255 on the natural model and 8/255 on the others; SCE has gamma 5, SKL gamma 1.",
        "Images that are misclassified before the attack count as successes.",
        "PGD on the natural model has steps of 2/255, which fits the printed values; the second reading has eps/4.",
        *attack_footnotes(preset, fewer=False),
        *(laptop if preset.name == "laptop" else ()),
        *adversarial_footnotes(preset),
    )


def _statements() -> tuple[Statement, ...]:
    def at(attack: str, loss: str, model: str) -> CellName:
        return CellName("table7", f"{attack} {loss}", model)

    found = []
    for attack in ("FGSM", "PGD", "APGD"):
        others = [at(attack, loss, "NT") for loss in ATTACK_LOSS_TEXTS]
        found.append(
            Statement(
                f"STD is the most successful loss on the natural model ({attack}).",
                above_all(at(attack, "STD", "NT"), others),
            )
        )
        for upper, lower, models in (
            ("STD", "CE", MODELS_IN_TABLE[1:]),
            ("SCE", "CE", MODELS_IN_TABLE),
            ("SKL", "KL", MODELS_IN_TABLE),
        ):
            for model in models:
                remark = PRINTED_OTHERWISE.get((attack, upper, lower, model), "")
                found.append(
                    Statement(
                        f"{attack} is more successful with {upper} than with {lower} ({model}).",
                        (Above(at(attack, upper, model), at(attack, lower, model)),),
                        not remark,
                        remark,
                    )
                )
    pairs = [
        (at(attack, "SCE", model), at(attack, "STD", model))
        for attack in ("FGSM", "PGD", "APGD")
        for model in MODELS_IN_TABLE[1:]
    ]
    most = "In most cases SCE is more successful than STD on adversarially trained models."
    return (*found, Statement(most, (MostAbove(tuple(pairs)),)))


PRINTED_OTHERWISE = {
    ("FGSM", "STD", "CE", "Fast-AT"): "45.95 against 46.05",
    ("FGSM", "SKL", "KL", "NT"): "24.9 against 26.45",
    ("FGSM", "SKL", "KL", "Madry-AT"): "24.75 against 25.05",
    ("FGSM", "SKL", "KL", "TR"): "22.05 against 22.2",
    ("PGD", "STD", "CE", "Fast-AT"): "52.9 against 53.0",
    ("PGD", "SKL", "KL", "NT"): "43.35 against 43.55",
    ("APGD", "STD", "CE", "Fast-AT"): "both are 55.8",
}
"""Attack, the two losses and the model -> the printed values, where they do not agree with the text."""
