"""A training step makes the host wait for the device at most once, counted on the CPU by the operators that would."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ctrobust import data
from ctrobust.losses.inputs import checked_labels
from ctrobust.recipes import signed_steps
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingState
from ctrobust.training.loop import _Epoch
from ctrobust.training.training_callback import NoCallback

SYNCHRONIZING = {
    "_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero", "nonzero_numpy", "unique",
    "unique_consecutive", "unique_dim", "_unique", "_unique2",
}  # fmt: skip
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
# functions that do not read values on another device, or ten times a second at most
ON_THE_CPU_ALONE = {checked_labels.__code__, _Epoch.loss_exploded.__code__}


class SynchronizationCounter(TorchDispatchMode):
    """Counts the operators after which the host would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator.overloadpacket.__name__
        masks = name in INDEXING and any(index is not None and index.dtype == torch.bool for index in args[1])
        if (name in SYNCHRONIZING or masks) and not _called_from(ON_THE_CPU_ALONE):
            self.count += 1
        return operator(*args, **(kwargs or {}))


def _called_from(functions: set[Any]) -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code in functions:
            return True
    return False


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: float(x[0, 0]), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x.masked_select(x > 0), 1),
        (lambda x: (x > 0).nonzero(), 1),
        (lambda x: torch.equal(x, x.clone()), 1),
        (lambda x: x.unique(), 1),
        (lambda x: x[torch.tensor([0, 1])], 0),
        (lambda x: torch.where(x > 0, x, 0.0).sum(), 0),
    ],
)
def test_the_counter_counts_reads_of_values(read: Callable[[torch.Tensor], Any], count: int) -> None:
    x = torch.arange(6.0).view(2, 3)
    with SynchronizationCounter() as counter:
        read(x)
    assert counter.count == count


@contextmanager
def outside_attacks(monkeypatch: pytest.MonkeyPatch, counter: SynchronizationCounter) -> Iterator[None]:
    """Do not count inside the attack of a recipe."""
    take_signed_steps = signed_steps.take_signed_steps

    def uncounted(*args: Any, **kwargs: Any) -> torch.Tensor:
        before = counter.count
        x = take_signed_steps(*args, **kwargs)
        counter.count = before
        return x

    with monkeypatch.context() as patch:
        patch.setattr(signed_steps, "take_signed_steps", uncounted)
        yield


FIELDS: dict[str, Any] = {"limit": 64, "batch_size": 16, "epochs": 1, "model": {"width": 8}}


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "dropout"},
        {"method": "disout"},
        {"method": "mdl", "recipe": {"eta": 70}},
        {"method": "dropconnect+mdl"},
        {"method": "online-label-smoothing"},
        {"augment": "crop-flip", "ema": 0.9, "model": {"name": "resnet18", "width": 8, "maps": "dropblock"}},
        {"recipe": {"name": "fast", "gamma": 2.0}},
        {"recipe": {"name": "madry", "gamma": 2.0, "steps": 2}},
        {"recipe": {"name": "trades", "gamma": 2.0, "steps": 2}},
        {"recipe": {"name": "free", "gamma": 2.0, "replays": 2}},
    ],
    ids=str,
)
def test_a_training_step_waits_for_the_device_at_most_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    spec = train_spec({**FIELDS, **fields})
    state = TrainingState.begin(spec, data.load("digits").take(64))
    counts: list[int] = []

    class Counted(_Epoch):
        def poll(self) -> tuple[bool, bool]:
            answer = super().poll()
            counts.append(counter.count)
            return answer

        def finish(self) -> bool:
            return False

        def report_progress(self) -> None:
            if self.state.progress.batch < self.state.batches:  # the last batch of an epoch is always reported
                super().report_progress()

    # neither a report nor a checkpoint is due
    monkeypatch.setattr("ctrobust.training.loop.time.monotonic", lambda: 0.0)
    with SynchronizationCounter() as counter, outside_attacks(monkeypatch, counter):
        Counted(state, RunDirectory(tmp_path), NoCallback(), CheckpointPolicy()).run_batches()
    per_batch = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert len(per_batch) == 4
    # the first batch of an adversarial recipe also checks that the images are in [0, 1]
    assert all(count <= state.replays for count in per_batch[1:]), per_batch


def test_the_loss_is_summed_on_the_device(tmp_path: Path) -> None:
    state = TrainingState.begin(train_spec(FIELDS), data.load("digits").take(64))
    epoch = _Epoch(state, RunDirectory(tmp_path), NoCallback(), CheckpointPolicy())
    assert epoch.loss_sum.device == state.fabric.device
    assert epoch.loss_sum.dtype == torch.float64
