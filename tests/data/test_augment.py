import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad as zero_pad

from ctrobust import draws
from ctrobust.data import augment
from ctrobust.data.augment import random_crops
from ctrobust.errors import InputError


def one(image: Tensor, down: int, right: int, flip: bool, pad: int) -> Tensor:
    """Flip, pad and crop one image."""
    _, height, width = image.shape
    padded = zero_pad(image.flip(2) if flip else image, (pad,) * 4)
    return padded[:, down : down + height, right : right + width]


def images(*shape: int, dtype: torch.dtype = torch.uint8) -> Tensor:
    values = torch.randint(1, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return values if dtype == torch.uint8 else values.to(dtype) / 255


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 7), st.integers(1, 7)),
    st.integers(0, 9),
    st.booleans(),
    st.integers(0, 2**63 - 1),
    st.sampled_from([torch.uint8, torch.float32, torch.float16, torch.float64]),
    st.sampled_from(["contiguous", "channels last", "transposed"]),
)
@settings(max_examples=200, deadline=None)
def test_a_batch_equals_its_images_one_by_one(
    shape: tuple[int, int, int, int], pad: int, flip: bool, stream: int, dtype: torch.dtype, order: str
) -> None:
    x = images(*shape, dtype=dtype)
    if order == "channels last":
        x = x.to(memory_format=torch.channels_last)
    elif order == "transposed":
        x = x.transpose(2, 3)
    before = x.clone()
    keys = torch.arange(len(x)) * 1_000_003 - 5
    down, right, flipped = random_crops(keys, stream, pad, flip)
    expected = [one(x[i], int(down[i]), int(right[i]), bool(flipped[i]), pad) for i in range(len(x))]
    result = augment(x, keys, stream, pad, flip)
    assert torch.equal(result, torch.stack(expected))
    assert result.dtype == dtype
    assert torch.equal(x, before)
    assert ((down >= 0) & (down <= 2 * pad) & (right >= 0) & (right <= 2 * pad)).all()
    assert flip or not flipped.any()


@pytest.mark.parametrize("channels", [1, 3])
def test_memory_order_is_kept(channels: int) -> None:
    x, keys = images(5, channels, 8, 6), torch.arange(5)
    assert augment(x, keys, 0).stride() == x.stride()
    last = x.to(memory_format=torch.channels_last)
    assert augment(last, keys, 0).stride() == last.stride()
    assert torch.equal(augment(last, keys, 0), augment(x, keys, 0))


def test_an_example_depends_only_on_its_key_and_the_stream() -> None:
    x = images(64, 3, 8, 8)
    keys = torch.arange(64) * 7
    whole = augment(x, keys, draws.stream(1, "augment", 0))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:20]
    assert torch.equal(augment(x[order], keys[order], draws.stream(1, "augment", 0)), whole[order])
    same = x[:1].expand(64, -1, -1, -1)
    assert len(torch.unique(augment(same, keys, 5), dim=0)) > 30  # of 162 possible
    assert not torch.equal(augment(x, keys, draws.stream(1, "augment", 1)), whole)


def test_neighbours_do_not_leak_into_each_other() -> None:
    x = images(200, 1, 6, 6, dtype=torch.float32)
    x[::2] = torch.nan
    x[1::4] = torch.inf
    result = augment(x, torch.arange(200), 3, pad=5)
    assert not result[1::2].isnan().any()
    assert not result[3::4].isinf().any()


def chi_square(counts: np.ndarray, expected: float) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("seed", range(3))
def test_all_crops_and_flips_are_equally_likely(seed: int) -> None:
    down, right, flip = random_crops(torch.arange(162 * 200), draws.stream(seed), 4, True)
    counts = np.bincount(((down * 9 + right) * 2 + flip).numpy(), minlength=162)
    assert chi_square(counts, 200) < 223  # 161 degrees of freedom, 999 of 1000


def test_equal_in_distribution_to_the_per_image_form() -> None:
    """Compare two samples of the 18 outcomes of one image: whole batches, and a loop with its own generator."""
    image, count = torch.arange(1, 10, dtype=torch.uint8).view(1, 3, 3), 3600
    batch = augment(image.expand(count, 1, 3, 3), torch.arange(count), draws.stream("sample"), pad=1)
    generator = torch.Generator().manual_seed(0)
    loop = []
    for _ in range(count):
        down, right = torch.randint(0, 3, (2,), generator=generator).tolist()
        flip = bool(torch.rand((), generator=generator) < 0.5)
        loop.append(one(image, down, right, flip, 1))
    both = torch.cat([batch, torch.stack(loop)]).flatten(1)
    outcomes, which = torch.unique(both, dim=0, return_inverse=True)
    assert len(outcomes) == 18
    first, second = (np.bincount(part, minlength=18) for part in (which[:count].numpy(), which[count:].numpy()))
    statistic = float(((first - second) ** 2 / (first + second)).sum())
    assert statistic < 40.8  # 17 degrees of freedom, 999 of 1000


def test_nothing_to_do_changes_nothing() -> None:
    x, keys = images(4, 3, 5, 5), torch.arange(4)
    assert augment(x, keys, 0, pad=0, flip=False) is x
    assert augment(x[:0], keys[:0], 0).shape == (0, 3, 5, 5)
    only_flips = augment(x, keys, 0, pad=0)
    _, _, flipped = random_crops(keys, 0, 0, True)
    assert torch.equal(only_flips, torch.where(flipped[:, None, None, None], x.flip(3), x))


@pytest.mark.parametrize(
    ("x", "keys", "pad", "message"),
    [
        (images(4, 3, 5), torch.arange(4), 4, r"x must be \(N, C, H, W\) .*; got \(4, 3, 5\)"),
        (images(4, 3, 5, 5), torch.arange(3), 4, r"keys torch.int64 \(N,\); got .* torch.int64 \(3,\)"),
        (images(4, 3, 5, 5), torch.arange(4.0), 4, r"got .* torch.float32 \(4,\)"),
        (images(4, 3, 5, 5), torch.arange(4), -1, "pad must be at least 0; got -1"),
    ],
)
def test_invalid_arguments_are_refused(x: Tensor, keys: Tensor, pad: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        augment(x, keys, 0, pad)


def fastest(run: Callable[[], object], tries: int) -> float:
    seconds = []
    for _ in range(tries):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def test_a_batch_is_several_times_faster_than_a_loop() -> None:
    """Compare with the same draws, flips, pads and crops image by image; about 10 times slower on an idle core."""
    x, keys, stream = images(128, 3, 32, 32), torch.arange(128), draws.stream(0)

    def loop() -> Tensor:
        result = []
        for number, image in enumerate(x):
            down, right, flip = random_crops(keys[number : number + 1], stream, 4, True)
            result.append(one(image, int(down[0]), int(right[0]), bool(flip[0]), 4))
        return torch.stack(result)

    assert torch.equal(loop(), augment(x, keys, stream))
    slow, fast = fastest(loop, 5), fastest(lambda: augment(x, keys, stream), 50)
    assert slow > 4 * fast
