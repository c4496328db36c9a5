"""The test split of data without one, decided by hashes instead of a random generator.

Whether an example is held out depends on its hash alone, so that examples added later do not change the split of the
others. There is one exception, which keeps every class in training: if all examples of a class would be held out, those
with the largest hash are not.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_HELD_OUT = 2**64 // 5


def held_out(digests: Sequence[bytes], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark about one in five examples for testing: N SHA-256 digests and (N,) labels to (N,) bool.

    Example:
        >>> import hashlib
        >>> digests = [hashlib.sha256(b"%d" % number).digest() for number in range(10_000)]
        >>> int(held_out(digests, np.arange(10_000) % 10).sum())
        2052
        >>> held_out([bytes(32), bytes(32)], np.array([0, 1]))  # alone in their classes
        array([False, False])
    """
    values = np.frombuffer(b"".join(digest[:8] for digest in digests), ">u8").astype(np.uint64)
    marked = values < _HELD_OUT
    classes, position = np.unique(labels, return_inverse=True)
    largest, trained = np.zeros(len(classes), np.uint64), np.zeros(len(classes), np.bool_)
    np.maximum.at(largest, position, values)
    np.logical_or.at(trained, position, ~marked)
    return np.asarray(marked & (trained[position] | (values < largest[position])))
