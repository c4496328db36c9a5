"""A result in the JSON form of RobustBench's model_info files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrobust.outcomes import Evaluation, worst_case
from ctrobust.regular_file import read_regular_file

MOST_ENTRY_BYTES = 1 << 20


@dataclass(frozen=True)
class EntryFacts:
    """What an entry says of the network besides its accuracies.

    Attributes:
        name: of the network.
        architecture: its architecture, such as "resnet18, width 16".
        dataset: the name of the data set.
        split: "test" or "train".
        eps: the radius as text, such as "8/255".
        norm: "linf" or "l2".
        limit: the number of images asked for; None is the whole split.
        masking: the level of the masking verdict at this radius; None if there is none.
        version: of this package.
        repeats: the forward passes of one classification; several if the network draws at random.
    """

    name: str
    architecture: str
    dataset: str
    split: str
    eps: str
    norm: str
    limit: int | None
    masking: str | None
    version: str
    repeats: int = 1


def robustbench_entry(facts: EntryFacts, evaluations: Mapping[str, Evaluation], autoattack: str) -> dict[str, Any]:
    """The entry of a network from attacks within one ball, of which one is standard AutoAttack.

    `external` is there if the attacks together break more than AutoAttack alone. `unreliable` is true if the masking
    verdict found something. Fields that only the authors know are empty: link, authors and venue.

    Args:
        facts: what the entry says besides accuracies.
        evaluations: the text of each attack -> its outcomes; all within the same ball, on the same examples.
        autoattack: the text of AutoAttack among them.
    """
    ours = evaluations[autoattack]
    together = worst_case(evaluations)
    accuracy = f"{100 * ours.robust_accuracy:.2f}"
    entry: dict[str, Any] = {
        "link": "",
        "name": facts.name,
        "authors": "",
        "additional_data": False,
        "number_forward_passes": facts.repeats,
        "dataset": facts.dataset,
        "venue": "N/A",
        "architecture": facts.architecture,
        "eps": facts.eps,
        "clean_acc": f"{100 * ours.accuracy:.2f}",
        "reported": accuracy,
        "autoattack_acc": accuracy,
    }
    notes = [_images(facts, ours)]
    if together.robust_accuracy < ours.robust_accuracy:
        entry["external"] = f"{100 * together.robust_accuracy:.2f}"
        others = ", ".join(text for text in evaluations if text != autoattack)
        notes.append(f"{entry['external']}% is what AutoAttack and {others} leave together.")
    tested = "none was made at this radius" if facts.masking is None else facts.masking
    notes.append(f"Masking verdict: {tested}.")
    entry["footnote"] = " ".join(notes)
    entry["unreliable"] = facts.masking in ("suspicious", "masked")
    return entry


def is_entry(file: Path) -> bool:
    """Whether a file holds an entry, which may be replaced."""
    try:
        found = json.loads(read_regular_file(file, MOST_ENTRY_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "autoattack_acc" in found


def _images(facts: EntryFacts, ours: Evaluation) -> str:
    low, high = 100 * ours.interval.low, 100 * ours.interval.high
    which = f"the first {len(ours):,}" if facts.limit is not None else f"all {len(ours):,}"
    return (
        f"Both accuracies are on {which} {facts.split} images ({facts.norm}); the 95% interval of the robust accuracy "
        f"is [{low:.2f}, {high:.2f}]. Evaluated with ctrobust {facts.version}."
    )
