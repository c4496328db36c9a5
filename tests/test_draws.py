"""Counter-based draws: the published generator, the distributions, independence of the batch."""

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust import draws

MASK = (1 << 64) - 1
KEYS = torch.arange(2000)
INT64 = st.integers(-(2**63), 2**63 - 1)

KINDS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "words": lambda keys, stream: draws.words(keys, stream, 15),
    "uniform": lambda keys, stream: draws.uniform(keys, stream, (3, 5)),
    "normal": lambda keys, stream: draws.normal(keys, stream, (3, 5)),
    "keep by bytes": lambda keys, stream: draws.keep(keys, stream, 75, 0.5),
    "keep by halves of words": lambda keys, stream: draws.keep(keys, stream, 75, 0.37),
}
every_kind = pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS.keys())


def split_mix(state: int, count: int) -> list[int]:
    """Vigna's SplitMix64 in Python integers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(z ^ (z >> 31))
    return found


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def bits(words: Tensor) -> Tensor:
    """(...,) int64 -> (..., 64) of 0 and 1."""
    return words.unsqueeze(-1) >> torch.arange(64) & 1


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten().double(), b.flatten().double()]))[0, 1])


def chi_square(counts: Tensor, expected: float) -> float:
    """Pearson's statistic in standard deviations from its mean."""
    freedom = counts.numel() - 1
    statistic = ((counts.double() - expected) ** 2 / expected).sum().item()
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_the_oracle_is_the_published_generator() -> None:
    assert split_mix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


numpy_and_torch = pytest.mark.parametrize("small", [draws.SMALL, -1], ids=["numpy", "torch"])


@numpy_and_torch
@settings(max_examples=100, deadline=None)
@given(key=INT64, stream=INT64)
def test_words_are_split_mix_64_seeded_by_key_and_stream(small: int, key: int, stream: int) -> None:
    # One round of the generator turns (stream, key) into the seed.
    (seed,) = split_mix((key - 1) * 0x9E3779B97F4A7C15 + stream, 1)
    expected = [signed(word) for word in split_mix(seed, 5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "SMALL", small)
        assert draws.words(torch.tensor([key]), stream, 5).tolist() == [expected]


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (0, 3), (5, 0), (1, 1), (2, 7), (128, 1), (draws.SMALL - 1, 1), (draws.SMALL, 1), (draws.SMALL + 1, 1),
        (1, draws.SMALL), (1, draws.SMALL + 1), (draws.SMALL // 64, 64), (draws.SMALL // 64 + 1, 64), (3, draws.SMALL),
    ],
)  # fmt: skip
def test_numpy_and_torch_draw_the_same_bits(size: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = torch.arange(2 * size)[::2] * -1_000_003_000_003  # a strided tensor, whose memory layout must not matter
    found = draws.words(keys, draws.stream("few"), count)
    assert found.is_contiguous()
    for small in (-1, size * count):  # all by torch, all by NumPy
        monkeypatch.setattr(draws, "SMALL", small)
        other = draws.words(keys, draws.stream("few"), count)
        assert torch.equal(other, found)
        assert (other.dtype, other.shape) == (torch.int64, (size, count))


def test_small_draws_use_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(draws, "_numpy_words")
    draws.words(torch.arange(draws.SMALL + 1), 0, 1)
    draws.words(torch.arange(8, device="meta"), 0, 1)
    with pytest.raises(NameError):
        draws.words(torch.arange(draws.SMALL), 0, 1)


def test_compiled_draws_are_the_same_bits() -> None:
    compiled = torch.compile(lambda keys: draws.words(keys, 7, 3) ^ 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(KEYS[:5]), draws.words(KEYS[:5], 7, 3) ^ 1)


@pytest.mark.parametrize("keys", [KEYS.int(), KEYS.float(), KEYS.view(2, -1), KEYS[0]])
def test_keys_of_another_type_or_shape_are_refused(keys: Tensor) -> None:
    with pytest.raises(TypeError, match=r"keys must be torch.int64 \(N,\); got torch"):
        draws.words(keys, 0, 1)


@numpy_and_torch
def test_golden_values(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stored outcomes depend on these bits.
    monkeypatch.setattr(draws, "SMALL", small)
    stream, keys = draws.stream(0, "pgd"), torch.tensor([0, 1, -1, 2**62])
    assert stream == 5129942654120499232
    assert draws.words(keys, stream, 2).tolist() == [
        [-51117041713517730, 7900288556900728768],
        [4471120648471454229, -9100833698689935515],
        [-8552573676116240167, -4158953128844435644],
        [8764681572108426919, 207661388648335771],
    ]
    uniform, normal = draws.uniform(keys[:1], 7, (3,)), draws.normal(keys[:1], 7, (3,))
    assert uniform[0].tolist() == [0.29703885316848755, 0.5243459343910217, 0.5113976001739502]
    assert normal[0].tolist() == pytest.approx([-0.27015456557273865, 1.1598570346832275, 1.115524411201477], rel=1e-6)
    masks = [draws.keep(keys[:1], 7, 20, drop)[0].int().tolist() for drop in (0.5, 0.1)]
    assert ["".join(map(str, mask)) for mask in masks] == ["10111010100000111101", "11001011111111111011"]
    assert draws.permutation(8, 7).tolist() == [2, 0, 3, 4, 1, 5, 7, 6]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-99, 99) | st.text("01, '\"", max_size=3), max_size=4), min_size=2, max_size=2))
def test_streams_of_different_names_differ(names: list[list[int | str]]) -> None:
    one, other = (draws.stream(*each) for each in names)
    assert -(2**63) <= one < 2**63
    assert (one == other) == (names[0] == names[1])


@every_kind
@settings(max_examples=30, deadline=None)
@given(keys=st.lists(INT64, min_size=1, max_size=9), stream=INT64, data=st.data())
def test_a_draw_depends_only_on_its_key(
    draw: Callable[[Tensor, int], Tensor], keys: list[int], stream: int, data: st.DataObject
) -> None:
    # Keys may be any subset in any order, with repetitions.
    chosen = data.draw(st.lists(st.integers(0, len(keys) - 1), min_size=1, max_size=12))
    tensor = torch.tensor(keys)
    assert torch.equal(draw(tensor[chosen], stream), draw(tensor, stream)[chosen])


@every_kind
def test_no_keys_give_no_draws(draw: Callable[[Tensor, int], Tensor]) -> None:
    assert draw(KEYS[:0], 1).shape == (0, *draw(KEYS[:1], 1).shape[1:])


@every_kind
def test_draws_of_different_keys_and_streams_are_uncorrelated(draw: Callable[[Tensor, int], Tensor]) -> None:
    a, b = draw(KEYS, draws.stream(0, "a")), draw(KEYS, draws.stream(0, "b"))
    assert len(set(map(tuple, a.flatten(1).tolist()))) == len(KEYS)
    assert not (a == b).flatten(1).all(1).any()
    limit = 4 / math.sqrt(a.numel())
    assert abs(correlation(a, b)) < limit
    assert abs(correlation(a[:-1], a[1:])) < limit
    assert abs(correlation(a.flatten(1)[:, :-1], a.flatten(1)[:, 1:])) < limit


@every_kind
def test_draws_do_not_use_the_global_generator(draw: Callable[[Tensor, int], Tensor]) -> None:
    before = torch.get_rng_state()
    draw(KEYS, 5)
    draws.permutation(5, 5)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 62])
def test_flipping_one_input_bit_flips_half_of_the_output_bits(bit: int) -> None:
    # Flipping one bit of the key or of the stream flips each bit of each word with probability 1/2.
    stream = draws.stream("avalanche")
    words = draws.words(KEYS, stream, 3)
    for flipped in (draws.words(KEYS ^ (1 << bit), stream, 3), draws.words(KEYS, stream ^ (1 << bit), 3)):
        rate = bits(words ^ flipped).double().mean((0, 1))
        assert (rate - 0.5).abs().max() < 5 * 0.5 / math.sqrt(words.numel())
        assert abs(rate.mean().item() - 0.5) < 4 * 0.5 / math.sqrt(64 * words.numel())


def test_bits_of_neighbouring_keys_and_streams_are_uncorrelated() -> None:
    words = bits(draws.words(KEYS, 12345, 8)).double() - 0.5
    next_stream = bits(draws.words(KEYS, 12346, 8)).double() - 0.5
    for a, b in ((words[1:], words[:-1]), (words[:, 1:], words[:, :-1]), (words, next_stream)):
        agreement = 4 * (a * b).flatten(0, 1).mean(0)
        assert agreement.abs().max() < 5 / math.sqrt(a.numel() / 64)


def test_uniform_distribution() -> None:
    u = draws.uniform(KEYS, draws.stream("uniform"), (5, 100))
    assert u.dtype == torch.float32
    assert u.shape == (2000, 5, 100)
    assert u.min() >= 0
    assert u.max() < 1
    assert torch.equal(u * 2**24, (u * 2**24).round())
    assert u.double().mean().item() == pytest.approx(0.5, abs=4 / math.sqrt(12 * u.numel()))
    assert u.double().var().item() == pytest.approx(1 / 12, abs=4 / math.sqrt(180 * u.numel()))
    assert abs(chi_square((u * 256).long().flatten().bincount(minlength=256), u.numel() / 256)) < 4
    # The lowest bits are as uniform as the highest.
    low = (u * 2**24).long() & 255
    assert abs(chi_square(low.flatten().bincount(minlength=256), u.numel() / 256)) < 4


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (3, 1, 5)])
def test_draws_have_the_requested_shape(shape: tuple[int, ...]) -> None:
    for draw in (draws.uniform, draws.normal):
        found = draw(KEYS[:4], 3, shape)
        assert found.shape == (4, *shape)
        assert torch.equal(found.reshape(4, -1), draw(KEYS[:4], 3, (math.prod(shape),)))


def test_normal_distribution() -> None:
    z = draws.normal(KEYS, draws.stream("normal"), (500,))
    assert z.dtype == torch.float32
    sample = z.flatten().double()
    n = len(sample)
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert sample.pow(power).mean().item() == pytest.approx(moment, abs=4 * math.sqrt(variance / n))
    below = torch.special.ndtr(sample)
    assert abs(chi_square((below * 200).long().clamp_max(199).bincount(minlength=200), n / 200)) < 4
    assert 4.5 < sample.abs().max() < 6


@pytest.mark.parametrize("drop", [0.5, 0.1, 0.37, 0.25, 1 / 256, 0.9, 1e-3])
def test_keep_drops_at_the_given_rate(drop: float) -> None:
    # The rates of fixed streams, within 3 sigma and the resolution of 2^-16.
    for name in ("a", "b", "c"):
        mask = draws.keep(KEYS, draws.stream(name), 501, drop)
        assert mask.dtype == torch.bool
        assert mask.shape == (2000, 501)
        sigma = math.sqrt(drop * (1 - drop) / mask.numel())
        assert 1 - mask.double().mean().item() == pytest.approx(drop, abs=3 * sigma + 2**-17)
        by_position = 1 - mask.double().mean(0)
        assert (by_position - drop).abs().max() < 5 * math.sqrt(drop * (1 - drop) / len(KEYS)) + 5 / len(KEYS)


def test_keep_with_rate_zero_drops_nothing() -> None:
    assert draws.keep(KEYS, 3, 100, 0.0).all()


@settings(max_examples=50, deadline=None)
@given(size=st.integers(0, 300), stream=INT64)
def test_permutation_contains_every_index_once(size: int, stream: int) -> None:
    assert sorted(draws.permutation(size, stream).tolist()) == list(range(size))


def test_permutations_are_equally_likely() -> None:
    orders = Counter(tuple(draws.permutation(4, draws.stream(seed)).tolist()) for seed in range(4800))
    assert len(orders) == 24
    assert abs(chi_square(torch.tensor(list(orders.values())), 200)) < 4
