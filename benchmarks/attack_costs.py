"""Where the time of our attacks goes, how it grows, and that memory does not."""

import multiprocessing
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import ctrobust
from attack_subjects import Subject
from ctrobust import models
from ctrobust.attacks import APGD, FAB, PGD, Attack, Square, fuse
from ctrobust.attacks.fused import FusedModel


class Timed(nn.Module):
    """A model that adds up the time spent inside it, forward and backward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.seconds, self.begun = inner, 0.0, 0.0

    def begin(self, _: object = None) -> None:
        self.begun = time.perf_counter()

    def stop(self, _: object = None) -> None:
        self.seconds += time.perf_counter() - self.begun

    def forward(self, x: Tensor) -> Tensor:
        self.begin()
        at = x.view_as(x)
        if at.requires_grad:
            at.register_hook(self.stop)  # the last gradient that the model computes
        logits: Tensor = self.inner(at)
        if logits.requires_grad:
            logits.register_hook(self.begin)
        self.stop()
        return logits


def share_inside(attack: Attack, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of an attack's time that is spent inside the prepared copy of the model."""
    prepared = fuse(model, x)
    assert isinstance(prepared, FusedModel)
    timed = Timed(prepared.fused)
    attack.run(FusedModel(model, timed), x[:4], y[:4])
    timed.seconds = 0.0
    begun = time.perf_counter()
    attack.run(FusedModel(model, timed), x, y)
    return timed.seconds / (time.perf_counter() - begun)


def seconds(attack: Attack, model: nn.Module, x: Tensor, y: Tensor) -> float:
    begun = time.perf_counter()
    attack.run(model, x, y)
    return time.perf_counter() - begun


def report(subjects: Mapping[str, Subject], count: int) -> None:
    print("\n## Share of our time spent inside the model, wanted 90%")
    for network, subject in subjects.items():
        model, x, y, eps = subject.model, subject.x[:count], subject.y[:count], subject.trained
        tried: dict[str, Attack] = {
            "PGD-20, nothing dropped": PGD(eps, success="last"),
            "PGD-20": PGD(eps),
            "APGD-CE 25": APGD(eps, steps=25),
            "FAB-T 10, 1 target": FAB(eps, steps=10, targets=1),
            "Square 50": Square(eps, queries=50),
        }
        for label, attack in tried.items():
            print(f"{network:9} {label:24} {100 * share_inside(attack, model, x, y):5.1f}%", flush=True)
    growth(subjects["mnistnet"], count)


def growth(subject: Subject, count: int) -> None:
    """Times relative to the first, nothing dropped."""
    model, x, y, eps = subject.model, subject.x, subject.y, subject.trained
    print("\n## How cost grows on mnistnet, times the first; PGD-10, nothing dropped")
    ten = PGD(eps, steps=10, success="last")
    shown, towards = (x[:count], y[:count]), APGD(0.0, steps=10, loss="dlr", targets=2)
    rows: dict[str, dict[int, Callable[[], float]]] = {
        "examples": {n: partial(seconds, ten, model, x[:n], y[:n]) for n in (count, 2 * count, 4 * count)},
        "steps": {n: partial(seconds, PGD(eps, steps=n, success="last"), model, *shown) for n in (10, 20, 40)},
        "classes": {C: partial(seconds, ten, *blank(C, count)) for C in (10, 100, 1000)},
        "classes, APGD-T of 2 targets": {C: partial(seconds, towards, *blank(C, count)) for C in (10, 100, 1000)},
        "classes, FAB to the nearest": {C: partial(seconds, FAB(0.0, steps=2), *blank(C, count)) for C in (10, 20, 40)},
    }
    for label, points in rows.items():
        times = {size: min(measure() for _ in range(3)) for size, measure in points.items()}
        first = next(iter(times.values()))
        print(f"{label:32} {'   '.join(f'{size}: {value / first:.2f}' for size, value in times.items())}", flush=True)


def blank(C: int, count: int) -> tuple[nn.Module, Tensor, Tensor]:
    """An untrained MNISTNet of C classes, and images with the labels that it gives them: none is dropped."""
    torch.manual_seed(0)
    model = models.build("mnistnet", num_classes=C, in_channels=1).eval()
    x = torch.rand(count, 1, 28, 28)
    with torch.no_grad():  # few at a time: this must not be where the memory is highest
        return model, x, torch.cat([model(part).argmax(1) for part in torch.split(x, 8)])


def peak(label: str, examples: int, steps: int, batch: int) -> float:
    """MiB at most in this process, beyond what was there before the attack."""
    model, x, y = blank(10, examples)
    attacks: dict[str, Attack] = {"APGD-T": APGD(0.0, steps=steps, loss="dlr", targets=1), "PGD": PGD(0.0, steps=steps)}
    attack = attacks[label]
    before = high_water()
    ctrobust.evaluate(model, (x, y), attack, chunk=batch)
    return high_water() - before


def high_water() -> float:
    """MiB that this process had at most. What getrusage says would begin with the size of the process it came from."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def memory(count: int) -> None:
    """Each figure from a process of its own; `evaluate` attacks one batch after the other."""
    print("\n## Peak memory of an evaluation beyond the process before it, MiB; batch and everything else the same")
    for label in ("PGD", "APGD-T"):
        found = []
        for examples, steps in ((count, 10), (count, 40), (4 * count, 10)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found.append(
                    f"{examples} examples, {steps} steps: {pool.apply(peak, (label, examples, steps, count)):.0f}"
                )
        print(f"{label:8} {'   '.join(found)}", flush=True)
