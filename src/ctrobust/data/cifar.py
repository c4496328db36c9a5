"""CIFAR-10 and CIFAR-100 in their binary format: 32x32 color images, one record each, nothing in between.

    label (CIFAR-100: coarse label, fine label) | 1024 red values | 1024 green | 1024 blue, row by row

The pickled format of the same data is never read, because unpickling runs code from the file.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ctrobust.data.locate import open_regular_file
from ctrobust.data.published import Download, Published
from ctrobust.errors import DataError

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MOST_IMAGES = 1_000_000
_CHUNK = 512  # records, 1.5 MB
_NAMES_SIZE = 1 << 16  # more than any file of class names takes

_FINE_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""


def read_cifar(
    paths: Sequence[Path], limits: tuple[int, ...], classes: tuple[str, ...] = (), names_file: str = ""
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read images (N, 3, 32, 32) and labels (N,) from records of `len(limits)` label bytes and 3072 values.

    Label byte i must be below `limits[i]`, and the last one is the class. `names_file`, which is beside the others and
    has one class name per line, may be missing, but must not differ from `classes`. Memory stays within the images and
    a small buffer.
    """
    if names_file:
        _check_class_names(paths[0].with_name(names_file), classes)
    record = len(limits) + PIXELS
    counts = [_count(path, record) for path in paths]
    if sum(counts) > MOST_IMAGES:
        names = " and ".join(map(str, paths))
        raise DataError(f"{names}: {sum(counts)} images, expected at most {MOST_IMAGES}")
    images, labels = np.empty((sum(counts), PIXELS), np.uint8), np.empty(sum(counts), np.uint8)
    ends = np.cumsum(counts)[:-1]
    for path, file_images, file_labels in zip(paths, np.split(images, ends), np.split(labels, ends), strict=True):
        _fill(path, file_images, file_labels, limits)
    return images.reshape(-1, 3, SIDE, SIDE), labels


def _count(path: Path, record: int) -> int:
    with open_regular_file(path, "a CIFAR file") as file:
        size = file.seek(0, 2)
    if size == 0:
        raise DataError(f"{path} is empty; expected records of {record} bytes")
    if size % record:
        whole = f"{size // record} records of {record} bytes and {size % record} more"
        raise DataError(f"{path} is cut short, too long or no CIFAR file: {size} bytes are {whole}, expected none more")
    return size // record


def _fill(path: Path, images: NDArray[np.uint8], labels: NDArray[np.uint8], limits: tuple[int, ...]) -> None:
    record = len(limits) + PIXELS
    with open_regular_file(path, "a CIFAR file") as file:
        for first in range(0, len(labels), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            block = file.read(record * len(labels[chunk]))
            if len(block) < record * len(labels[chunk]):
                raise DataError(f"{path} became shorter while it was read")
            rows = np.frombuffer(block, np.uint8).reshape(-1, record)
            for position, limit in enumerate(limits):
                wrong = np.flatnonzero(rows[:, position] >= limit)
                if len(wrong):
                    kind = "coarse label" if position < len(limits) - 1 else "label"
                    found = f"{kind} {rows[wrong[0], position]} in record {first + wrong[0]}"
                    raise DataError(f"{path}: {found}, expected 0 to {limit - 1}")
            labels[chunk] = rows[:, len(limits) - 1]
            images[chunk] = rows[:, len(limits) :]
        if file.read(1):
            raise DataError(f"{path} became longer while it was read")


def _check_class_names(path: Path, classes: tuple[str, ...]) -> None:
    if not path.is_file():
        return
    with open_regular_file(path, "class names") as file:
        found = file.read(_NAMES_SIZE).decode("utf-8", "replace").split()
    for number, (name, expected) in enumerate(zip(found, classes, strict=False)):
        if name != expected:
            raise DataError(f"{path}: class {number} is {name!r}, expected {expected!r}")
    if len(found) != len(classes):
        raise DataError(f"{path}: {len(found)} class names, expected {len(classes)}")


def _cifar(
    name: str,
    description: str,
    folder: str,
    archive: tuple[str, int, str],
    files: Mapping[str, tuple[str, ...]],
    counts: Mapping[str, int],
    limits: tuple[int, ...],
    names_file: str,
    classes: tuple[str, ...],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    sha256: Mapping[str, str],
) -> Published:
    """Build an entry from its archive (name, size, SHA-256) and its counts (images in each file of a split)."""
    read = partial(read_cifar, limits=limits, classes=classes, names_file=names_file)
    members = {file: (len(limits) + PIXELS) * counts[split] for split in files for file in files[split]}
    download = Download(archive[0], (f"https://www.cs.toronto.edu/~kriz/{archive[0]}",), *archive[1:])
    members[names_file] = _NAMES_SIZE
    return Published(name, description, folder, files, read, classes, mean, std, sha256, (download,), members)


CIFAR10 = _cifar(
    name="cifar10",
    description="60,000 photographs in 10 classes, color 32 x 32",
    folder="cifar-10-batches-bin",
    archive=(
        "cifar-10-binary.tar.gz",
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    files={"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)},
    counts={"train": 10_000, "test": 10_000},
    limits=(10,),
    names_file="batches.meta.txt",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
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

CIFAR100 = _cifar(
    name="cifar100",
    description="60,000 photographs in 100 classes, color 32 x 32",
    folder="cifar-100-binary",
    archive=(
        "cifar-100-binary.tar.gz",
        168_513_733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    files={"train": ("train.bin",), "test": ("test.bin",)},
    counts={"train": 50_000, "test": 10_000},
    limits=(20, 100),
    names_file="fine_label_names.txt",
    classes=tuple(_FINE_NAMES.split()),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    sha256={
        "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
)
