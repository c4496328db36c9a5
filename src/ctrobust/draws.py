"""Counter-based random draws: a pure function of (stream, key, position), never of what was drawn before.

An example's draws are therefore the same in any batch, order, shard or process, and a resumed run repeats them. The
generator is SplitMix64 on int64 tensors, whose wrapping arithmetic gives the same bits on every device. On the CPU,
small numbers of draws use NumPy, which gives the same bits with less overhead per call.
"""

import hashlib
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MASK = (1 << 64) - 1
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

SMALL = 1 << 15
"""The largest number of words for NumPy, which is two to five times faster there; above it torch uses threads."""


def _signed(value: int) -> int:
    """Convert an unsigned 64-bit value to the int64 with the same bits."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


_STEP, _MUL_1, _MUL_2 = _signed(_GOLDEN), _signed(_FIRST), _signed(_SECOND)


def stream(*names: int | str) -> int:
    """Hash the names of a stream into its 64-bit number, as in `stream(seed, "pgd", restart, step)`.

    Example:
        >>> stream(0, "pgd", 1) == stream(0, "pgd", 1), stream(0, "pgd", 1) == stream(0, "pgd", 11)
        (True, False)
    """
    plain = tuple(name if isinstance(name, str) else int(name) for name in names)  # NumPy's integers hash as Python's
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=8).digest()
    return _signed(int.from_bytes(digest, "little"))


def _xor_shift(state: Tensor, bits: int) -> Tensor:
    """Compute state ^= state >>> bits, in place; the shift of int64 copies the sign, so those bits are masked off."""
    return state.bitwise_xor_((state >> bits).bitwise_and_((1 << (64 - bits)) - 1))


def _mix(state: Tensor) -> Tensor:
    """SplitMix64's finalizer, in place: each output bit depends on each input bit."""
    state = _xor_shift(state, 30).mul_(_MUL_1)
    state = _xor_shift(state, 27).mul_(_MUL_2)
    return _xor_shift(state, 31)


def words(keys: Tensor, stream: int, count: int) -> Tensor:
    """Draw `count` random 64-bit words for each key: (N,) int64 -> (N, count) int64, on the keys' device."""
    if keys.dtype != torch.int64 or keys.ndim != 1:  # shorter integers overflow and would give other words
        raise TypeError(f"keys must be torch.int64 (N,); got {keys.dtype} {tuple(keys.shape)}")
    if 0 < keys.numel() * count <= SMALL and keys.is_cpu and not torch.compiler.is_compiling():
        return torch.from_numpy(_numpy_words(keys.numpy().view(np.uint64), stream, count))
    start = _mix(keys * _STEP + stream)
    counter = torch.arange(1, count + 1, device=keys.device) * _STEP
    return _mix(start[:, None] + counter)


_NUMPY_STEP, _NUMPY_MUL_1, _NUMPY_MUL_2 = np.uint64(_GOLDEN), np.uint64(_FIRST), np.uint64(_SECOND)
_SHIFT_30, _SHIFT_27, _SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)


def _numpy_words(keys: NDArray[np.uint64], stream: int, count: int) -> NDArray[np.int64]:
    """`words` computed by NumPy, whose calls take a third of the time and whose unsigned shifts need no mask."""
    start = _numpy_mix(keys * _NUMPY_STEP + np.uint64(stream & _MASK))
    counter = np.arange(1, count + 1, dtype=np.uint64) * _NUMPY_STEP
    return _numpy_mix(start[:, None] + counter).view(np.int64)


def _numpy_mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`_mix` computed by NumPy, in place."""
    shifted = state >> _SHIFT_30
    state ^= shifted
    state *= _NUMPY_MUL_1
    state ^= np.right_shift(state, _SHIFT_27, out=shifted)
    state *= _NUMPY_MUL_2
    state ^= np.right_shift(state, _SHIFT_31, out=shifted)
    return state


def uniform(keys: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Draw uniform float32 numbers in [0, 1), 24 bits each: (N,) -> (N, *shape).

    Example:
        >>> a = uniform(torch.tensor([3, 7]), stream(0), (2, 2))
        >>> torch.equal(a[1:], uniform(torch.tensor([7]), stream(0), (2, 2)))
        True
    """
    size = math.prod(shape)
    halves = words(keys, stream, (size + 1) // 2).view(torch.int32)[:, :size]
    return ((halves >> 8) & 0xFFFFFF).float().mul_(2.0**-24).view(len(keys), *shape)


def normal(keys: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Draw standard normal float32 numbers by Box-Muller: (N,) -> (N, *shape).

    They are computed on the CPU because the logarithm rounds differently on other devices.
    """
    size = math.prod(shape)
    u, v = uniform(keys.cpu(), stream, (2, size)).double().unbind(1)
    draws = torch.sqrt(-2 * torch.log1p(-u)) * torch.cos(2 * math.pi * v)
    return draws.float().view(len(keys), *shape).to(keys.device)


def keep(keys: Tensor, stream: int, count: int, drop: float) -> Tensor:
    """Draw a boolean mask, False with probability `drop` (rounded to 2^-16): (N,) -> (N, count).

    For speed, one word serves four positions, or eight if a byte can represent `drop` exactly.
    """
    lane, levels = (torch.int8, 1 << 8) if float(drop * 256).is_integer() else (torch.int16, 1 << 16)
    per_word = 64 // lane.itemsize // 8
    lanes = words(keys, stream, -(-count // per_word)).view(lane)[:, :count]
    dropped = round(drop * levels)  # if it equals `levels`, the bound below does not fit the lane's type
    return lanes >= dropped - levels // 2 if dropped < levels else torch.zeros_like(lanes, dtype=torch.bool)


def permutation(size: int, stream: int) -> Tensor:
    """Draw a random order of 0..size-1, (size,) int64.

    Example:
        >>> sorted(permutation(4, stream(0)).tolist())
        [0, 1, 2, 3]
    """
    return words(torch.arange(size), stream, 1)[:, 0].argsort(stable=True)
