"""Where data sets are published, and what exactly.

Sizes and SHA-256 are those of the files that the authors' published MD5 sums also describe.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ctrobust.data.cifar import CIFAR10, CIFAR100, PIXELS, Cifar
from ctrobust.data.mnist import FASHION_MNIST, MNIST

_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
_FASHION_MNIST = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_CIFAR = ("https://www.cs.toronto.edu/~kriz/",)
_NAMES_SIZE = 1 << 16  # more than any file of class names takes


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded.

    Args:
        name: of the file.
        urls: where it lies, tried in order.
        size: in bytes, exactly; no more is ever read.
        sha256: of its contents.
    """

    name: str
    urls: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """A published data set.

    Args:
        folder: where its files belong, below a data root.
        files: what to download.
        members: if there are any, the one file is a .tar.gz, and these are the files to take from its folder of the
            same name, each with its largest size.
    """

    folder: str
    files: tuple[Remote, ...]
    members: Mapping[str, int]


def _idx(folder: str, bases: tuple[str, ...], files: dict[str, tuple[int, str]]) -> Source:
    remotes = (
        Remote(f"{name}.gz", tuple(f"{base}{name}.gz" for base in bases), size, sha256)
        for name, (size, sha256) in files.items()
    )
    return Source(folder, tuple(remotes), {})


def _cifar(published: Cifar, name: str, size: int, sha256: str, counts: dict[str, int]) -> Source:
    record = len(published.limits) + PIXELS
    members = {file: record * counts[split] for split, files in published.files.items() for file in files}
    remote = Remote(name, tuple(base + name for base in _CIFAR), size, sha256)
    return Source(published.folder, (remote,), members | {published.names_file: _NAMES_SIZE})


SOURCES = {
    MNIST.name: _idx(
        MNIST.name,
        _MNIST,
        {
            "train-images-idx3-ubyte": (
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1-ubyte": (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            "t10k-images-idx3-ubyte": (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            "t10k-labels-idx1-ubyte": (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        },
    ),
    FASHION_MNIST.name: _idx(
        FASHION_MNIST.name,
        _FASHION_MNIST,
        {
            "train-images-idx3-ubyte": (
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            "train-labels-idx1-ubyte": (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            "t10k-images-idx3-ubyte": (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            "t10k-labels-idx1-ubyte": (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        },
    ),
    CIFAR10.name: _cifar(
        CIFAR10,
        "cifar-10-binary.tar.gz",
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        {"train": 10_000, "test": 10_000},
    ),
    CIFAR100.name: _cifar(
        CIFAR100,
        "cifar-100-binary.tar.gz",
        168_513_733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        {"train": 50_000, "test": 10_000},
    ),
}
