"""Telling the random modules of a network whose draws to make."""

import torch
from torch import nn

from ctrobust.regularizers import HEAD_NOISE, Draw, DropConnect, Dropout, HeadNoise, Regularizer, clear_step, set_step
from ctrobust.regularizers.step_key import fresh, sample_keys

KEYS = torch.tensor([5, 2])


def network() -> tuple[nn.Sequential, list[Dropout | DropConnect]]:
    parts: list[Dropout | DropConnect] = [Dropout(), DropConnect(), Dropout(0.1)]
    return nn.Sequential(nn.Linear(2, 2), parts[0], nn.Sequential(parts[1], nn.ReLU(), parts[2])), parts


def test_every_regularizer_inside_is_told_and_has_a_stream_of_its_own() -> None:
    module, parts = network()
    set_step(module, seed=1, step=7, keys=KEYS, progress=0.25)
    with_step = [part.draw for part in parts]
    assert all(draw is not None and draw.keys is KEYS and draw.progress == 0.25 for draw in with_step)
    assert len({draw.stream for draw in with_step if draw is not None}) == 3


def test_streams_are_a_function_of_seed_step_and_place() -> None:
    streams = []
    for seed, step in [(0, 0), (0, 0), (0, 1), (1, 0)]:
        module, parts = network()
        set_step(module, seed=seed, step=step, keys=KEYS, progress=0.0)
        streams.append([part.draw.stream for part in parts if part.draw is not None])
    assert streams[0] == streams[1]
    assert len({stream for row in streams[1:] for stream in row}) == 9


def test_forget_undoes_tell() -> None:
    module, parts = network()
    set_step(module, seed=0, step=0, keys=KEYS, progress=0.0)
    clear_step(module)
    assert [part.draw for part in parts] == [None, None, None]


def test_a_told_draw_is_used_as_it_is_and_an_untold_one_is_fresh() -> None:
    x, draw = torch.empty(2, 3), Draw(17, KEYS, 0.5)
    assert fresh(draw, x) is draw
    with torch.random.fork_rng(devices=[]):
        one, two = fresh(None, x), fresh(None, x)
    assert one.stream != two.stream
    assert one.keys.tolist() == [0, 1]


def test_sample_keys_are_k_major_and_never_meet() -> None:
    keys = sample_keys(torch.arange(50), 20)
    assert len(set(keys.tolist())) == 1000
    assert torch.equal(keys[:50], sample_keys(torch.arange(50), 1))


def test_what_counts_as_noise() -> None:
    assert set(HEAD_NOISE) == {"dropout", "dropconnect"}
    for kind in HEAD_NOISE.values():
        assert isinstance(kind(), HeadNoise)
        assert isinstance(kind(), Regularizer)
    assert not isinstance(nn.Dropout(), Regularizer)
