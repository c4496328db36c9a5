"""MNIST, Fashion-MNIST and their descendants: 28x28 grayscale images of ten classes in four IDX files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ctrobust.data.idx import read_idx
from ctrobust.data.published import Download, Published
from ctrobust.errors import DataError

SIDE = 28
MOST_IMAGES = 60_000
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def like_mnist(
    name: str,
    description: str,
    classes: tuple[str, ...],
    *,
    mean: float,
    std: float,
    mirrors: tuple[str, ...],
    downloads: Mapping[str, tuple[int, str]],
    sha256: Mapping[str, str],
) -> Published:
    """Build the entry of a data set that was published as four IDX files of the same names as MNIST's.

    `mirrors` are URLs of folders with the four .gz files. `downloads` holds the size and the SHA-256 of each .gz file,
    by name without `.gz`, and `sha256` the SHA-256 of each uncompressed file, if known.
    """
    files = tuple(
        Download(f"{file}.gz", tuple(f"{mirror}{file}.gz" for mirror in mirrors), size, digest)
        for file, (size, digest) in downloads.items()
    )
    return Published(name, description, name, FILES, read_mnist, classes, (mean,), (std,), sha256, files, members={})


def read_mnist(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read a file of images and a file of labels; refuse other numbers, image sizes and labels than MNIST has."""
    images_path, labels_path = paths
    images = read_idx(images_path, at_most=(MOST_IMAGES, SIDE, SIDE))
    labels = read_idx(labels_path, at_most=(MOST_IMAGES,))
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise DataError(f"{images_path}: images of {height} x {width}, expected {SIDE} x {SIDE}")
    if len(images) != len(labels):
        raise DataError(f"{images_path} holds {len(images)} images, but {labels_path} {len(labels)} labels")
    if labels.max() > 9:
        raise DataError(f"{labels_path}: label {labels.max()}, expected 0 to 9")
    return images[:, None], labels


MNIST = like_mnist(
    "mnist",
    "70,000 handwritten digits, grayscale 28 x 28",
    tuple("0123456789"),
    mean=0.1307,
    std=0.3081,
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    downloads={
        "train-images-idx3-ubyte": (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        "train-labels-idx1-ubyte": (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        "t10k-images-idx3-ubyte": (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        "t10k-labels-idx1-ubyte": (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    },
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)

FASHION_MNIST = like_mnist(
    "fashion-mnist",
    "70,000 pieces of clothing in 10 classes, grayscale 28 x 28",
    (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
    mean=0.2860,
    std=0.3530,
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    downloads={
        "train-images-idx3-ubyte": (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        "train-labels-idx1-ubyte": (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        "t10k-images-idx3-ubyte": (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        "t10k-labels-idx1-ubyte": (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    },
    sha256={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
)  # fmt: skip
