"""Attacked images: chosen examples attacked again, for contact sheets and as 8-bit files."""

import io
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ctrobust import data as datasets
from ctrobust.attacks import Attack
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation.evaluator import evaluation_mode
from ctrobust.model_outputs import as_logits
from ctrobust.outcomes import AttackedImages, Evaluation
from ctrobust.store import write_atomic


@dataclass(frozen=True)
class SavedImages:
    """What became of attacked images that were written as 8-bit files.

    Attributes:
        folder: where they are, with `images.json`, which describes each.
        saved: the number of files; every one is misclassified as it is in the file.
        lost: the positions of broken examples whose image is classified correctly after rounding to 8 bits.
    """

    folder: Path
    saved: int
    lost: tuple[int, ...]


def choose_examples(evaluation: Evaluation, count: int) -> list[int]:
    """The examples to show: the first broken ones, then robust ones, a quarter of them robust where there are any."""
    if count < 1:
        raise InputError(f"the number of pictures is at least 1, got {count}")
    broken = np.flatnonzero(evaluation.clean_correct & ~evaluation.robust).tolist()
    robust = np.flatnonzero(evaluation.robust).tolist()
    kept = min(len(robust), max(count // 4, count - len(broken)))
    return sorted(broken[: count - kept] + robust[:kept])


def attack_images(model: nn.Module, data: Dataset, attack: Attack, positions: list[int]) -> AttackedImages:
    """Attack these examples again, with the keys that they have in an evaluation."""
    index = torch.tensor(positions)
    x, y = datasets.to_float(data.images[index]), data.labels[index]
    with evaluation_mode(model):
        attacked = attack.run(model, x, y, index).x_adv
        clean, after = _probabilities(model, x), _probabilities(model, attacked)
    return AttackedImages(
        positions=index.numpy(), labels=y.numpy(), clean=x.numpy(), attacked=attacked.numpy(),
        clean_probabilities=clean.numpy(), probabilities=after.numpy(), classes=data.classes, attack=str(attack),
    )  # fmt: skip


def save_images(
    model: nn.Module, data: Dataset, attack: Attack, evaluation: Evaluation, folder: Path, chunk: int = 256
) -> SavedImages:
    """Write the images of all broken examples as 8-bit PNG files that the model misclassifies.

    A perturbation is rounded to whole grey levels inside the ball. An image that is no longer misclassified then is
    not written; it is counted as lost.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is there already and is not an empty folder; name another for the images")
    positions = np.flatnonzero(evaluation.clean_correct & ~evaluation.robust)
    described, lost = [], []
    for part in np.array_split(positions, max(1, math.ceil(len(positions) / chunk))):
        if not len(part):
            continue
        index = torch.from_numpy(part)
        y = data.labels[index]
        with evaluation_mode(model):
            x = datasets.to_float(data.images[index])
            rounded = round_to_levels(attack.run(model, x, y, index).x_adv, data.images[index], attack)
            predicted = _probabilities(model, datasets.to_float(rounded)).argmax(1)
        for row, position in enumerate(part.tolist()):
            label, found = int(y[row]), int(predicted[row])
            if label == found:
                lost.append(position)
                continue
            file = f"{position:05d}-label-{label}-predicted-{found}.png"
            _write_picture(folder / file, rounded[row])
            names = {"label_name": data.classes[label], "predicted_name": data.classes[found]}
            described.append({"file": file, "position": position, "label": label, "predicted": found, **names})
    record = {"attack": str(attack), "data": data.name, "saved": len(described), "lost": lost, "images": described}
    write_atomic(folder / "images.json", (json.dumps(record, indent=2) + "\n").encode())
    return SavedImages(folder, len(described), tuple(lost))


def round_to_levels(attacked: Tensor, images: Tensor, attack: Attack) -> Tensor:
    """Images rounded to 8 bits, (N, C, H, W) uint8, without leaving the ball around 8-bit `images`."""
    levels = (attacked.double() * 255).round()
    clean = images.double()
    if attack.norm == "linf":
        radius = math.floor(attack.eps * 255 + 1e-6)
        return (clean + (levels - clean).clamp(-radius, radius)).clamp(0, 255).to(torch.uint8)
    change = levels - clean
    length = change.flatten(1).norm(dim=1).clamp(min=1e-12) / 255
    shrunk: Tensor = change * (attack.eps / length).clamp(max=1.0).view(-1, *[1] * (change.dim() - 1))
    return (clean + shrunk.trunc()).clamp(0, 255).to(torch.uint8)  # towards the image, so inside the ball


def _write_picture(path: Path, image: Tensor) -> None:
    buffer, pixels = io.BytesIO(), image.permute(1, 2, 0).numpy()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    write_atomic(path, buffer.getvalue())


def _probabilities(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return as_logits(model(x)).float().softmax(1)
