"""Each step of an attack reads at most twice from the device: on a GPU a read makes the host wait."""

import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ctrobust.attacks import APGD, MIFGSM, PGD, Attack, fuse
from ctrobust.attacks.fused import FusedModel

READS = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2", "unique_dim"}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}


class CountReads(TorchDispatchMode):
    """Counts the operations that make the host wait for a GPU. On a CPU `tolist` is not dispatched: see CountLists."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = (
            [index for index in args[1] if index is not None and index.dtype == torch.bool] if name in INDEXED else []
        )
        if (name in READS or masks) and not labels_are_checked_on_the_cpu():
            self.count += 1
        return func(*args, **(kwargs or {}))


class CountLists(TorchFunctionMode):
    def __init__(self, reads: CountReads) -> None:
        super().__init__()
        self.reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reads.count += func in (Tensor.tolist, Tensor.numpy)
        return func(*args, **(kwargs or {}))


def labels_are_checked_on_the_cpu() -> bool:
    """Whether the caller is a loss that checks labels, and target classes, only where that costs nothing."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name in ("checked_labels", "dlr_targeted"):
            return True
    return False


def reads(run: Callable[[], object]) -> int:
    counted = CountReads()
    with counted, CountLists(counted):
        run()
    return counted.count


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.sum().item(),
        lambda t: bool(t.any()),
        lambda t: int(t.sum()),
        lambda t: t.nonzero(),
        lambda t: t[t > 0],
        lambda t: t.clone().__setitem__(t > 0, 0.0),
        lambda t: torch.equal(t, t.clone()),
        lambda t: t.tolist(),
        lambda t: t.masked_select(t > 0),
        lambda t: t.unique(),
    ],
)
def test_every_kind_of_read_is_counted(read: Callable[[Tensor], object]) -> None:
    assert reads(lambda: read(torch.ones(3))) >= 1


def test_indexing_by_positions_is_no_read() -> None:
    t, index = torch.ones(3), torch.tensor([2, 0])
    assert reads(lambda: (t[index], t.index_put((index,), t[index] + 1), t.argsort()[:2])) == 0


ATTACKS: dict[str, Callable[..., Attack]] = {
    "pgd": PGD,
    "pgd-last": partial(PGD, success="last"),
    "pgd-std": partial(PGD, loss="std"),
    "pgd-skl": partial(PGD, loss="skl"),
    "pgd-l2": partial(PGD, norm="l2"),
    "pgd-eot": partial(PGD, eot=3),
    "mifgsm": MIFGSM,
    "mifgsm-last": partial(MIFGSM, success="last"),
    "apgd": APGD,
    "apgd-dlr": partial(APGD, loss="dlr"),
    "apgd-eot": partial(APGD, eot=3),
    "apgd-target": partial(APGD, loss="dlr", targets=1),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("fused", [False, True])
def test_a_step_reads_at_most_twice(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], name: str, fused: bool
) -> None:
    x, y = digits[0][:24], digits[1][:24]
    model = fuse(network, x) if fused else network
    assert isinstance(model, FusedModel) is fused
    eps = 0.6 if name == "pgd-l2" else 0.1
    step = {} if name.startswith("apgd") else {"step_size": eps / 8}
    successes, counts = [], []
    for steps in range(1, 7):  # fewer than those for which `run` makes a fused copy itself
        attack = ATTACKS[name](eps, steps=steps, **step)
        successes.append(int(attack.run(model, x, y).success.sum()))
        counts.append(reads(lambda attack=attack: attack.run(model, x, y)))  # type: ignore[misc]
    assert max(b - a for a, b in itertools.pairwise(counts)) <= 2
    assert successes[0] < successes[-1] < len(x)


def test_labels_are_checked_once_for_a_batch(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:8], digits[1][:8]
    few, many = (reads(lambda steps=steps: MIFGSM(0.0, steps=steps).run(network, x, y)) for steps in (2, 9))  # type: ignore[misc]
    assert many - few == 7 * 2
