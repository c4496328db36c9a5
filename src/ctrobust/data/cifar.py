"""CIFAR-10 and CIFAR-100 in their binary format: 32x32 colour images, one record each, nothing in between.

    label (CIFAR-100: coarse label, fine label) | 1024 red values | 1024 green | 1024 blue, row by row

The pickled format of the same data is never read: unpickling runs whatever a file says.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ctrobust.data.dataset import Dataset
from ctrobust.data.locate import find_files
from ctrobust.data.regular_file import open_regular_file
from ctrobust.errors import DataError

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MOST_IMAGES = 1_000_000
_CHUNK = 512  # records, 1.5 MB

_FINE_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class Cifar:
    """A data set as its authors published it.

    Args:
        name: its name.
        folder: of the files, as in the published archive.
        files: by split, in order.
        limits: how many values each label byte of a record may have; the last is the class.
        classes: the class names.
        names_file: beside the others, one class name per line. It need not be there; if it is, it must agree.
        mean: per channel, of the training pixels in [0, 1].
        std: per channel.
        sha256: by file name.
    """

    name: str
    folder: str
    files: Mapping[str, tuple[str, ...]]
    limits: tuple[int, ...]
    classes: tuple[str, ...]
    names_file: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    sha256: Mapping[str, str]


CIFAR10 = Cifar(
    name="cifar10",
    folder="cifar-10-batches-bin",
    files={"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)},
    limits=(10,),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    names_file="batches.meta.txt",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2471, 0.2435, 0.2616),
    sha256={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
)

CIFAR100 = Cifar(
    name="cifar100",
    folder="cifar-100-binary",
    files={"train": ("train.bin",), "test": ("test.bin",)},
    limits=(20, 100),
    classes=tuple(_FINE_NAMES.split()),
    names_file="fine_label_names.txt",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    sha256={
        "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
)


def load_cifar(published: Cifar, split: str, root: Path | str | None = None) -> Dataset:
    """Loads one split; only that split's files are needed. Other contents or counts load, with `verified` false.

    Raises:
        DataError: the files are missing, damaged, or have labels or class names that CIFAR does not have.
    """
    names = published.files[split]
    paths = find_files(published.folder, names, root, zipped=False, dataset=published.name)
    _check_class_names(published, paths[0].with_name(published.names_file))
    images, labels, digests = read_cifar(paths, published.limits)
    return Dataset(
        name=published.name,
        split=split,
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels).long(),
        classes=published.classes,
        mean=published.mean,
        std=published.std,
        verified=digests == tuple(published.sha256[name] for name in names),
    )


def read_cifar(
    paths: Sequence[Path], limits: tuple[int, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[str, ...]]:
    """Reads records of `len(limits)` label bytes and 3072 values, file after file.

    Memory stays within the images and a small buffer. A record's last label byte is its class.

    Returns:
        Images (N, 3, 32, 32), labels (N,), and each file's SHA-256.

    Raises:
        DataError: a file cannot be read, does not consist of whole records, or has a label out of its limits.
    """
    record = len(limits) + PIXELS
    counts = [_count(path, record) for path in paths]
    total = sum(counts)
    if total > MOST_IMAGES:
        names = " and ".join(map(str, paths))
        raise DataError(f"{names}: {total} images, expected at most {MOST_IMAGES}")
    images, labels = np.empty((total, PIXELS), np.uint8), np.empty(total, np.uint8)
    digests, first = [], 0
    for path, count in zip(paths, counts, strict=True):
        digests.append(_fill(images[first : first + count], labels[first : first + count], path, limits))
        first += count
    return images.reshape(total, 3, SIDE, SIDE), labels, tuple(digests)


def _count(path: Path, record: int) -> int:
    with open_regular_file(path, "a CIFAR file") as file:
        size = file.seek(0, 2)
    if size == 0:
        raise DataError(f"{path} is empty; expected records of {record} bytes")
    if size % record:
        whole = f"{size // record} records of {record} bytes and {size % record} more"
        raise DataError(f"{path} is cut short, too long or no CIFAR file: {size} bytes are {whole}, expected none more")
    return size // record


def _fill(images: NDArray[np.uint8], labels: NDArray[np.uint8], path: Path, limits: tuple[int, ...]) -> str:
    record, digest = len(limits) + PIXELS, hashlib.sha256()
    with open_regular_file(path, "a CIFAR file") as file:
        for first in range(0, len(labels), _CHUNK):
            part = slice(first, first + _CHUNK)
            block = file.read(record * len(labels[part]))
            if len(block) < record * len(labels[part]):
                raise DataError(f"{path} became shorter while it was read")
            digest.update(block)
            rows = np.frombuffer(block, np.uint8).reshape(-1, record)
            for place, limit in enumerate(limits):
                wrong = np.flatnonzero(rows[:, place] >= limit)
                if len(wrong):
                    kind = "coarse label" if place < len(limits) - 1 else "label"
                    found = f"{kind} {rows[wrong[0], place]} in record {first + wrong[0]}"
                    raise DataError(f"{path}: {found}, expected 0 to {limit - 1}")
            labels[part] = rows[:, len(limits) - 1]
            images[part] = rows[:, len(limits) :]
        if file.read(1):
            raise DataError(f"{path} became longer while it was read")
    return digest.hexdigest()


def _check_class_names(published: Cifar, path: Path) -> None:
    if not path.is_file():
        return
    with open_regular_file(path, "class names") as file:
        found = file.read(1 << 16).decode("utf-8", "replace").split()
    for number, (name, expected) in enumerate(zip(found, published.classes, strict=False)):
        if name != expected:
            raise DataError(f"{path}: class {number} is {name!r}, expected {expected!r}")
    if len(found) != len(published.classes):
        raise DataError(f"{path}: {len(found)} class names, expected {len(published.classes)}")
