"""MNIST and Fashion-MNIST: 28x28 grey images of ten classes in four IDX files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ctrobust.data.dataset import Dataset
from ctrobust.data.idx import idx_sha256, read_idx
from ctrobust.data.locate import find_files
from ctrobust.errors import DataError

SIDE = 28
COUNTS = {"train": 60_000, "test": 10_000}
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class Published:
    """A data set as its authors published it.

    Args:
        name: its name, also that of its folder.
        classes: the class names.
        mean: of the training pixels in [0, 1].
        std: of the training pixels in [0, 1].
        sha256: by file name, of the uncompressed contents. Those of the published .gz files would not do: copies are
            repacked, and Debian's Fashion-MNIST has other gzip headers than its authors'.
    """

    name: str
    classes: tuple[str, ...]
    mean: float
    std: float
    sha256: Mapping[str, str]


MNIST = Published(
    name="mnist",
    classes=tuple("0123456789"),
    mean=0.1307,
    std=0.3081,
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)

FASHION_MNIST = Published(
    name="fashion-mnist",
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    mean=0.2860,
    std=0.3530,
    sha256={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
)


def load_mnist(published: Published, split: str, root: Path | str | None = None) -> Dataset:
    """Loads one split; only that split's two files are needed.

    Fewer images or other contents than the published ones load, with `verified` false.

    Raises:
        DataError: the files are missing or damaged, hold more than was published, do not belong together, or have
            other image sizes or labels.
    """
    names = FILES[split]
    images_path, labels_path = find_files(published.name, names, root)
    images = read_idx(images_path, at_most=(COUNTS[split], SIDE, SIDE))
    labels = read_idx(labels_path, at_most=(COUNTS[split],))
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise DataError(f"{images_path}: images of {height} x {width}, expected {SIDE} x {SIDE}")
    if len(images) != len(labels):
        raise DataError(f"{images_path} holds {len(images)} images, but {labels_path} {len(labels)} labels")
    if labels.max() >= len(published.classes):
        raise DataError(f"{labels_path}: label {labels.max()}, expected 0 to {len(published.classes) - 1}")
    return Dataset(
        name=published.name,
        split=split,
        images=torch.from_numpy(images).unsqueeze(1),
        labels=torch.from_numpy(labels).long(),
        classes=published.classes,
        mean=(published.mean,),
        std=(published.std,),
        verified=(idx_sha256(images), idx_sha256(labels)) == tuple(published.sha256[name] for name in names),
    )
