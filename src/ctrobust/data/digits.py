"""scikit-learn's handwritten digits, which are embedded in that package: 1,797 images of 8x8, enlarged to 28x28."""

import hashlib

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, one_hot, pad

from ctrobust.data.dataset import Dataset

# Of the training split, in [0, 1].
MEAN = 0.1557
STD = 0.2774
SHA256 = "f6d9e39f37dc45d327f6db33428ee58970ccceabb2535a5c179de35886b70443"


def load_digits(split: str) -> Dataset:
    """Load one split: "test" is every fifth image of each class, in the package's order, "train" the others."""
    from sklearn.datasets import load_digits as load_embedded  # takes a second to import

    embedded = load_embedded()
    # The package may one day return the same values in other types.
    raw = embedded.images.astype("<f8").tobytes() + embedded.target.astype("<i8").tobytes()
    labels = torch.from_numpy(embedded.target.astype(np.int64))
    chosen = is_test(labels) == (split == "test")
    return Dataset(
        name="digits",
        split=split,
        images=enlarge(torch.from_numpy(embedded.images.astype(np.float64)))[chosen],
        labels=labels[chosen],
        classes=tuple("0123456789"),
        mean=(MEAN,),
        std=(STD,),
        verified=hashlib.sha256(raw).hexdigest() == SHA256,
    )


def is_test(labels: Tensor) -> Tensor:
    """Mark every fifth example of each class: (N,) labels to (N,) bool.

    Example:
        >>> is_test(torch.tensor([7, 7, 1, 7, 7, 7, 1])).nonzero().flatten()
        tensor([5])
    """
    rank = one_hot(labels).cumsum(0).gather(1, labels[:, None]).squeeze(1)
    return rank % 5 == 0


def enlarge(images: Tensor) -> Tensor:
    """Enlarge (N, 8, 8) float64 values 0..16 to (N, 1, 28, 28) uint8: 20x20, bilinear, with a margin of 4 as in MNIST.

    Example:
        >>> enlarge(torch.full((1, 8, 8), 8.0, dtype=torch.float64))[0, 0, 3:6, 14]
        tensor([  0, 128, 128], dtype=torch.uint8)
    """
    values = interpolate(images.unsqueeze(1), size=(20, 20), mode="bilinear", align_corners=False) / 16 * 255
    # Halves are rounded up. All other values are multiples of 1/320, further than 1e-6 from a half, so the last bit
    # of an interpolation, which may differ between machines, does not matter.
    return pad(torch.floor(values + 0.5 + 1e-6).to(torch.uint8), (4, 4, 4, 4))
