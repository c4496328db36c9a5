"""An example's draws and outcome do not depend on batch size, sharding or order."""

import copy
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import AttackResult, fuse, parse
from tests.attacks.rows import ATTACK_ROWS

TEXTS = [f"{name}:{row.on_digits}" for name, row in ATTACK_ROWS.items()]
every_attack = pytest.mark.parametrize("text", TEXTS)
FIRST = {1: 15, 7: 70, 64: 250}
"""Batch size -> number of examples; each is compared with one batch of all 250 examples."""

Drawn = dict[int, list[tuple[int, bytes]]]


@contextmanager
def recorded() -> Iterator[Drawn]:
    """Record the streams and bits drawn for each key, in order."""
    drawn: Drawn = defaultdict(list)
    real = draws.words

    def words(keys: Tensor, stream: int, count: int) -> Tensor:
        found = real(keys, stream, count)
        for key, row in zip(keys.tolist(), found, strict=True):
            drawn[key].append((stream, hashlib.blake2b(row.numpy().tobytes(), digest_size=8).digest()))
        return found

    with patch.object(draws, "words", words):
        yield drawn


def attacked(text: str, model: nn.Module, x: Tensor, y: Tensor, groups: Sequence[Tensor]) -> AttackResult:
    """Attack groups of positions one after the other and return the results in the original order."""
    results = [parse(text).run(model, x[keys], y[keys], keys) for keys in groups]
    order = torch.cat(tuple(groups)).argsort()
    names = ("x_adv", "success", "forwards", "backwards")
    columns = [torch.cat([getattr(result, name) for result in results])[order] for name in names]
    return AttackResult(columns[0], columns[1], columns[2], columns[3])


@every_attack
def test_float64_outcomes_do_not_depend_on_the_batch(
    text: str, network: nn.Sequential, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits
    model = fuse(network, x)
    positions = torch.arange(len(x))
    groupings = {
        **{f"batches of {size}": positions[:count].split(size) for size, count in FIRST.items()},
        "two shards": (positions[::2], positions[1::2]),
        "another order": (draws.permutation(len(x), draws.stream(1)),),
    }
    with recorded() as whole_drawn:
        whole = attacked(text, model, x, y, [positions])
    assert whole.success.any()
    for grouping, groups in groupings.items():
        with recorded() as drawn:
            found = attacked(text, model, x, y, groups)
        count = len(found.success)
        assert torch.equal(found.success, whole.success[:count]), grouping
        assert torch.equal(found.forwards, whole.forwards[:count]), grouping
        assert torch.equal(found.backwards, whole.backwards[:count]), grouping
        assert drawn == {key: rows for key, rows in whole_drawn.items() if key < count}, grouping


def test_float32_outcomes_rarely_depend_on_the_batch(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0].float(), digits[1]
    model = fuse(copy.deepcopy(network).float(), x)
    compared = differ = 0
    for text in TEXTS:
        whole = attacked(text, model, x, y, [torch.arange(len(x))])
        for size, count in FIRST.items():
            found = attacked(text, model, x, y, torch.arange(count).split(size))
            compared += count
            differ += int((found.success != whole.success[:count]).sum())
    print(f"float32: {differ} of {compared} outcomes differ between batch sizes")
    assert differ <= 0.002 * compared
