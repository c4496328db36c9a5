import numpy as np
import pytest
import torch

from ctrobust.data import normalization
from ctrobust.data.normalization import mean_std


def images(count: int, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, channels, 4, 5), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("chunk", [1, 130, 1 << 20])
def test_against_numpy(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(normalization, "_CHUNK", chunk)
    x = images(11)
    values = x.double().numpy() / 255
    mean, std = mean_std(x)
    assert mean == pytest.approx(values.mean((0, 2, 3)), abs=1e-12)
    assert std == pytest.approx(values.std((0, 2, 3)), abs=1e-12)
    chosen = np.arange(11) % 3 == 0
    assert mean_std(x, chosen) == mean_std(x[torch.from_numpy(chosen)])


def test_any_memory_order() -> None:
    x = images(5)
    assert mean_std(x.to(memory_format=torch.channels_last)) == mean_std(x)


def test_a_constant_channel_has_deviation_one() -> None:
    x = images(4)
    x[:, 1] = 51
    mean, std = mean_std(x)
    assert (mean[1], std[1]) == (0.2, 1.0)
    assert std[0] != 1.0
