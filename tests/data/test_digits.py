import hashlib

import numpy as np
import pytest
import sklearn.datasets
import torch

from ctrobust.data import load
from ctrobust.data.digits import enlarge, is_test


def test_the_same_bits_everywhere_and_no_random_state_is_touched() -> None:
    state = torch.get_rng_state()
    numpy_state = str(np.random.get_state())  # noqa: NPY002
    digests = {}
    for split in ("train", "test"):
        data = load("digits", split)
        digests[split] = hashlib.sha256(data.images.numpy().tobytes() + data.labels.numpy().tobytes()).hexdigest()
        assert data.verified
    assert digests == {
        "train": "1e590e858e2de1ddb5c4df444db73eb4399a073690c0ab546159b669398b74b7",
        "test": "7667e1d7830eba320805a62f6e025011e456725c62df65f1ebab5fe4e11c43ab",
    }
    assert torch.equal(torch.get_rng_state(), state)
    assert str(np.random.get_state()) == numpy_state  # noqa: NPY002


def test_splits_partition_each_class_four_to_one() -> None:
    train, test = load("digits"), load("digits", "test")
    whole = np.bincount(sklearn.datasets.load_digits().target)
    assert test.labels.bincount().tolist() == (whole // 5).tolist()
    assert (train.labels.bincount() + test.labels.bincount()).tolist() == whole.tolist()


def test_mean_and_std_are_those_of_the_training_split() -> None:
    train = load("digits")
    x = train.images.double() / 255
    assert train.mean == (round(x.mean().item(), 4),)
    assert train.std == (round(x.std().item(), 4),)
    assert (load("digits", "test").mean, load("digits", "test").std) == (train.mean, train.std)


def test_changed_contents_are_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = sklearn.datasets.load_digits()
    changed.images[0, 0, 0] += 1
    monkeypatch.setattr(sklearn.datasets, "load_digits", lambda: changed)
    assert not load("digits").verified


def test_is_test_counts_within_each_class() -> None:
    labels = torch.tensor([0, 1] * 11)
    assert is_test(labels).nonzero().flatten().tolist() == [8, 9, 18, 19]


def test_enlarge_against_bilinear_weights_written_out() -> None:
    images = torch.from_numpy(sklearn.datasets.load_digits().images[:50])
    position = np.clip((np.arange(20) + 0.5) * 8 / 20 - 0.5, 0, 7)
    weights = np.maximum(0, 1 - np.abs(position[:, None] - np.arange(8)))  # (20, 8), rows sum to one
    expected = np.einsum("ai,nij,bj->nab", weights, images.numpy(), weights) / 16 * 255
    enlarged = enlarge(images)
    assert np.abs(enlarged[:, 0, 4:-4, 4:-4].numpy() - expected).max() <= 0.5 + 1e-6
    assert enlarged.shape == (50, 1, 28, 28)
    assert enlarged.sum() == enlarged[:, :, 4:-4, 4:-4].sum()


def test_enlarge_keeps_the_extremes() -> None:
    flat = torch.tensor([0.0, 16.0], dtype=torch.float64)[:, None, None].expand(2, 8, 8)
    black, white = enlarge(flat)[:, 0, 4:-4, 4:-4]
    assert (black == 0).all()
    assert (white == 255).all()
