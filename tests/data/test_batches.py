import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ctrobust.data import Dataset, augment, epoch_batches, gather, to_float
from ctrobust.errors import InputError


def dataset(channels: int) -> Dataset:
    images = torch.randint(0, 256, (11, channels, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    ones = (1.0,) * channels
    return Dataset("noise", "train", images, torch.arange(11) % 3, ("a", "b", "c"), ones, ones, verified=False)


@given(st.integers(0, 60), st.integers(1, 70), st.data())
def test_batches_visit_every_index_once_and_a_start_gives_the_tail(count: int, size: int, draw: st.DataObject) -> None:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    batches = epoch_batches(order, size)
    assert torch.equal(torch.cat([order[:0], *batches]), order)
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(1 <= len(batch) <= size for batch in batches[-1:])
    start = draw.draw(st.integers(0, len(batches)))
    tail = epoch_batches(order, size, start=start)
    assert [batch.tolist() for batch in tail] == [batch.tolist() for batch in batches[start:]]


@pytest.mark.parametrize(
    ("order", "size", "start", "message"),
    [
        (torch.arange(5), 0, 0, "batch_size must be at least 1; got 0"),
        (torch.arange(5), 2, -1, "start must be 0 to 3, the number of batches; got -1"),
        (torch.arange(5), 2, 4, "start must be 0 to 3, the number of batches; got 4"),
        (torch.arange(5.0), 2, 0, r"order must be torch.int64 \(N,\); got torch.float32 \(5,\)"),
        (torch.zeros(5, 1, dtype=torch.int64), 2, 0, r"order must be torch.int64 \(N,\); got torch.int64 \(5, 1\)"),
    ],
)
def test_impossible_batches_are_refused(order: torch.Tensor, size: int, start: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        epoch_batches(order, size, start=start)


def test_to_float_divides_exactly() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    expected = torch.tensor([value / 255 for value in range(256)], dtype=torch.float64).float()
    assert torch.equal(to_float(values.view(1, 1, 16, 16)).flatten(), expected)
    assert values[255] == 255  # the input is left alone


@pytest.mark.parametrize("channels", [1, 3])
def test_float_images_are_channels_last_from_any_memory_format(channels: int) -> None:
    images = dataset(channels).images
    for given_images in (images, images.to(memory_format=torch.channels_last), images.transpose(2, 3)):
        x = to_float(given_images)
        assert torch.equal(x, given_images.float() / 255)
        height, width = x.shape[2:]
        assert x.stride() == (channels * height * width, 1, channels * width, channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_gather_selects_examples(channels: int) -> None:
    data = dataset(channels)
    index = torch.tensor([10, 0, 3, 3])
    x, y = gather(data, index)
    assert x.dtype == torch.float32
    assert torch.equal(x, torch.stack([data.images[i].float() / 255 for i in index]))
    assert torch.equal(y, torch.tensor([1, 0, 0, 0]))
    assert x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("images", [torch.zeros(1, 1, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8)])
def test_to_float_refuses_everything_but_a_batch_of_uint8(images: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"images must be torch.uint8 \(N, C, H, W\); got torch\."):
        to_float(images)


@pytest.mark.parametrize("channels", [1, 3])
def test_augmented_bytes_are_the_same_as_augmented_floats(channels: int) -> None:
    data, index = dataset(channels), torch.tensor([3, 1, 9, 0, 0])
    x, _ = gather(data, index)
    augmented = augment(x, index, 7)
    assert torch.equal(augmented, to_float(augment(data.images[index], index, 7)))
    assert augmented.is_contiguous(memory_format=torch.channels_last)
    assert not torch.equal(augmented, x)
