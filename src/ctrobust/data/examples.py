"""Images and labels from what people have: data loaders, tensor data sets, arrays, tensors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from ctrobust.data.dataset import Dataset
from ctrobust.errors import InputError

_ALLOWED = (
    "expected a ctrobust Dataset, a DataLoader or a torch Dataset of (image, label), or a pair (images, labels) of "
    "arrays or tensors"
)
_CHANNELS = (1, 3)


def as_examples(data: object, limit: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the first `limit` images and labels of any common form of data, on the CPU.

    Args:
        data: a `ctrobust.data.Dataset`; a DataLoader, which is read until there are enough examples; a TensorDataset or
            another torch Dataset of (image, label); or a pair (images, labels) of NumPy arrays, tensors or lists.
            Images are uint8, or floats in [0, 1]; tensors are (N, C, H, W) or (N, H, W), arrays also (N, H, W, C).
        limit: the most examples; all of them by default.

    Returns:
        Images (N, C, H, W), uint8 or float32 in [0, 1], and labels (N,) int64.

    Raises:
        InputError: the data have another form, shape, type or range.

    Example:
        >>> images, labels = as_examples((np.zeros((5, 8, 8, 3), np.uint8), [0, 1, 2, 1, 0]), limit=4)
        >>> images.shape, labels
        (torch.Size([4, 3, 8, 8]), tensor([0, 1, 2, 1]))
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1; got {limit}")
    if isinstance(data, Dataset):
        return data.images[:limit], data.labels[:limit]
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, TorchDataset):
        data = DataLoader(data, batch_size=min(limit or 256, 256))
    if isinstance(data, DataLoader):
        return _read_loader(data, limit)
    if isinstance(data, tuple | list) and len(data) == 2:
        images, labels = data
        return _convert(images, labels, limit)
    found = f"a {type(data).__name__} of {len(data)}" if isinstance(data, tuple | list) else f"a {type(data).__name__}"
    raise InputError(f"cannot read examples from {found}; {_ALLOWED}")


def _read_loader(loader: DataLoader[Any], limit: int | None) -> tuple[Tensor, Tensor]:
    batches: list[tuple[Tensor, Tensor]] = []
    count = 0
    try:
        for batch in loader:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
                raise InputError(
                    f"the DataLoader yields a {type(batch).__name__}{size}; expected batches (images, labels)"
                )
            images, labels = batch
            batches.append(_convert(images, labels, None if limit is None else limit - count))
            count += len(batches[-1][1])
            if limit is not None and count >= limit:
                break
    except TypeError as error:  # of torch's default collation, as for pictures of Pillow
        raise InputError(f"the data set cannot be batched: {error}; expected images as tensors") from error
    if not batches:
        raise InputError("the DataLoader yields no batch; expected at least one example")
    shapes = {(images.shape[1:], images.dtype) for images, _ in batches}
    if len(shapes) > 1:
        found = " and ".join(sorted(f"{dtype} {tuple(shape)}" for shape, dtype in shapes))
        raise InputError(f"the DataLoader yields images of {found}; expected one shape and type")
    return torch.cat([images for images, _ in batches]), torch.cat([labels for _, labels in batches])


def _convert(images: object, labels: object, limit: int | None) -> tuple[Tensor, Tensor]:
    (x, count), (y, label_count) = _as_tensor(images, "images", limit), _as_tensor(labels, "labels", limit)
    if count != label_count or count == 0:
        raise InputError(f"there are {count} images and {label_count} labels; expected equal numbers, at least 1")
    return _check_images(x, isinstance(images, Tensor)), _check_labels(y)


def _as_tensor(values: object, name: str, limit: int | None) -> tuple[Tensor, int]:
    """Return the first `limit` values as a tensor, and how many there are in all."""
    try:
        found = values.detach() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"{name} are not an array: {error}") from error
    if found.ndim == 0:
        raise InputError(f"{name} are a single {type(values).__name__}; expected an array or a tensor")
    if isinstance(found, Tensor):
        return found[:limit].cpu(), len(found)
    if found.dtype.kind not in "biuf":
        raise InputError(f"{name} are an array of {found.dtype}; expected numbers")
    kind = np.dtype(np.float32) if found.dtype.kind == "f" else found.dtype.newbyteorder("=")
    # A copy, because torch cannot share memory with read-only or reversed arrays.
    return torch.from_numpy(np.array(found[:limit], kind)), len(found)


def _check_images(x: Tensor, is_tensor: bool) -> Tensor:
    """Check type, range and shape; an array's channels may be first or last, a tensor's are first."""
    found = f"images are {x.dtype} {tuple(x.shape)}"
    if x.dtype != torch.uint8 and not x.is_floating_point():
        raise InputError(f"{found}; expected uint8, or floats in [0, 1]")
    if x.ndim not in (3, 4) or x.numel() == 0:
        raise InputError(f"{found}; expected (N, H, W), (N, C, H, W) or as an array (N, H, W, C), not empty")
    if x.is_floating_point():
        x = x.float()
        low, high = (value.item() for value in x.aminmax())
        if not (low >= 0 and high <= 1):  # NaN too
            hint = "divide them by 255" if low >= 0 else "normalize inside the model"
            raise InputError(f"images have values from {low:g} to {high:g}; expected [0, 1] ({hint})")
    if x.ndim == 3:
        return x.unsqueeze(1)
    first, last = x.shape[1] in _CHANNELS, x.shape[3] in _CHANNELS
    if is_tensor and last and not first:
        raise InputError(f"{found}; expected a tensor (N, C, H, W): permute(0, 3, 1, 2) makes it so")
    if not is_tensor and first == last:
        sizes = f"{'both' if first else 'neither'} of {x.shape[1]} and {x.shape[3]} can be the number of channels"
        raise InputError(f"{found}: {sizes}; expected 1 or 3, or a tensor (N, C, H, W)")
    return x if is_tensor or first else x.permute(0, 3, 1, 2)


def _check_labels(y: Tensor) -> Tensor:
    found = f"labels are {y.dtype} {tuple(y.shape)}"
    if y.ndim != 1:
        hint = "; argmax(1) makes labels of one-hot rows" if y.ndim == 2 else ""
        raise InputError(f"{found}; expected integers (N,){hint}")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise InputError(f"{found}; expected integers (N,)")
    y = y.long()
    if y.min() < 0:
        raise InputError(f"labels have values from {y.min()} to {y.max()}; expected classes from 0")
    return y
